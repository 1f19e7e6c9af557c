# SPDX-License-Identifier: Apache-2.0
"""Helpers of the system tests: namespaces, processes, certificates, traffic, foreign peers."""

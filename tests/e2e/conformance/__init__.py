# SPDX-License-Identifier: Apache-2.0
"""A replay of the Gateway API conformance suite against 'spanwire control' and 'spanwire gateway'."""

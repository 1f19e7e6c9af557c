# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/soak: load that checks every byte, and what the roles use meanwhile."""

# SPDX-License-Identifier: Apache-2.0
"""Tests by their name in the catalogue."""


def registry():
    """A table, and the decorator that puts a function into it."""
    table = {}

    def case(name):
        def put(function):
            assert name not in table, name
            table[name] = function
            return function
        return put
    return table, case

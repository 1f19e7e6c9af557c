# SPDX-License-Identifier: Apache-2.0
"""The system tests' fixtures and namespaces, for tests against foreign programs."""
import importlib.util
import os
import pathlib
import sys

import pytest

E2E = pathlib.Path(__file__).resolve().parent.parent / "e2e"
sys.path.insert(0, str(E2E))

_spec = importlib.util.spec_from_file_location("e2e_conftest", E2E / "conftest.py")
_e2e = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_e2e)

# Hooks and fixtures are found by name in this module.
globals().update({k: v for k, v in vars(_e2e).items() if not k.startswith("__")})


@pytest.fixture(scope="session")
def interop_dir():
    """Where 'prepare' put the peer."""
    where = os.environ.get("INTEROP_DIR")
    if not where or not os.path.isdir(where):
        pytest.skip("no INTEROP_DIR: run by tools/interop")
    return pathlib.Path(where)

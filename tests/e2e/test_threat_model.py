# SPDX-License-Identifier: Apache-2.0
"""Every test that the threat model names exists."""
import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "doc/threat-model.md"


def exists(name):
    if name.startswith(("unit/", "fuzz/")):
        return (TESTS / f"{name}.c").exists()
    file, _, function = name.partition("::")
    path = TESTS / "e2e" / f"{file}.py"
    return path.exists() and (not function or re.search(rf"^def {function}\(", path.read_text(encoding="utf-8"), re.M))


def test_the_tests_it_names_exist():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    names = re.findall(r"`((?:unit/|fuzz/|test_)[\w/:]+)`", "\n".join(rows))
    assert len(names) > 40
    assert not [n for n in names if not exists(n)]

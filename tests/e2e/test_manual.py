# SPDX-License-Identifier: Apache-2.0
"""The manual pages name every command, and every page that one refers to is built."""
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "doc/man").glob("*.scd"))


def said(binary, *argv):
    return subprocess.run([binary, *argv], capture_output=True, text=True, check=True, timeout=60).stdout


def commands(binary):
    return re.findall(r"(?m)^  (\w+) +\S", said(binary, "help").split("Commands:")[1])


def test_the_main_page_lists_every_command(binary, tmp_path):
    """From the table of the program, through the build's own script."""
    assert "@commands@\n" in (ROOT / "doc/man/spanwire.1.scd").read_text()
    scdoc = tmp_path / "bin/scdoc"
    scdoc.parent.mkdir()
    scdoc.write_text("#!/bin/sh\ncat\n")
    scdoc.chmod(0o755)
    out = tmp_path / "spanwire.1"
    subprocess.run([ROOT / "tools/man-page", binary, ROOT / "doc/man/spanwire.1.scd", out], check=True, timeout=60,
                   env={"PATH": f"{scdoc.parent}:/usr/bin:/bin"})
    listed = re.findall(r"(?m)^\*(\w+)\*\n\t[A-Z]", out.read_text())
    assert len(listed) > 10
    assert [c for c in commands(binary) if c not in listed] == []


def test_every_command_has_its_page(binary):
    sections = dict(re.findall(r"See \*spanwire-(\w+)\*\((\d)\)", said(binary, "help", "--man")))
    assert set(commands(binary)) - set(sections) == {"version", "help"}
    assert [n for n, s in sections.items() if not (ROOT / f"doc/man/spanwire-{n}.{s}.scd").exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_page_is_built_and_refers_to_pages_that_exist(page):
    name, section = page.stem.rsplit(".", 1)
    text = page.read_text()
    assert f"'{page.stem}'" in (ROOT / "doc/man/meson.build").read_text()
    assert text.startswith(f"{name}({section})\n")
    for other, number in re.findall(r"\*(spanwire[\w-]*)\*\((\d)\)", text):
        assert (ROOT / f"doc/man/{other}.{number}.scd").exists(), f"{other}({number})"

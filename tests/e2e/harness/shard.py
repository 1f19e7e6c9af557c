# SPDX-License-Identifier: Apache-2.0
"""Several pytest processes that share one run: each takes the next file nobody has taken.

All of them collect the same tests. A file is taken by creating an entry of its name in the directory
SPANWIRE_E2E_CLAIMS, so its tests run in one process, in their order, and each exactly once. Files that took long
the last time go first ('times' in that directory, written by tools/run-tests), which keeps the ends together.
"""
import json
import os
import pathlib

UNKNOWN = 20  # seconds, of a file that is new: rather too early than the last of all


def directory():
    return os.environ.get("SPANWIRE_E2E_CLAIMS")


def _file_of(item):
    return item.nodeid.split("::")[0]


def _by_file(items):
    files = {}
    for item in items:
        files.setdefault(_file_of(item), []).append(item)
    return files


def _longest_first(files, top):
    times = json.loads((top / "times").read_text(encoding="utf-8"))
    return sorted(files, key=lambda name: (-times.get(name, UNKNOWN), name))


def _take(top, name):
    try:
        os.close(os.open(top / name.replace("/", ","), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _taken(session, top):
    files = _by_file(session.items)
    for name in _longest_first(files, top):
        if _take(top, name):
            yield from files[name]


def run(session):
    """The loop over the tests, in place of pytest's own."""
    if session.testsfailed:
        raise session.Interrupted("errors during collection")
    top = pathlib.Path(directory())
    (top / "collected").write_text(str(len(session.items)), encoding="ascii")
    if session.config.option.collectonly:
        return True
    items = _taken(session, top)
    item = next(items, None)
    while item is not None:
        after = next(items, None)  # what it does not need is taken down after this one
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = after
    return True

# SPDX-License-Identifier: Apache-2.0
"""Waiting without sleeping longer than needed."""
import contextlib
import os
import threading
import time

SANITIZED = os.environ.get("SPANWIRE_SANITIZED") == "1"
# Sanitizers make everything several times slower; bounds on time stretch with them.
SLOW = float(os.environ.get("SPANWIRE_E2E_PATIENCE", 6 if SANITIZED else 1))


GUARD = 40.0  # seconds; a machine that has other work stops a process for some of them now and then


def guard(timeout):
    """The seconds after which a wait is given up, for one that asked for 'timeout'."""
    return max(timeout, GUARD) * SLOW


def until(predicate, timeout=GUARD, what=None, interval=0.01):
    """
    Polls until predicate() is truthy and returns its value; AssertionError at the deadline, which only guards against
    waiting forever: no test may depend on how fast something comes, so a shorter time is taken as GUARD. What an object
    has not got yet (KeyError, IndexError, None instead of it) is waited for. 'what' is a text, or makes one at the
    deadline.
    """
    timeout = max(timeout, GUARD)
    deadline = time.monotonic() + timeout * SLOW
    while True:
        missing = None
        try:
            if value := predicate():
                return value
        except (KeyError, IndexError, TypeError) as e:
            missing = e
        if time.monotonic() >= deadline:
            said = what() if callable(what) else what or predicate
            raise AssertionError(f"timed out after {timeout * SLOW:g} s: {said}") from missing
        time.sleep(interval)


def stays(predicate, seconds, what=None, interval=0.02):
    """The predicate must hold during the whole time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert predicate(), what or predicate
        time.sleep(interval)


@contextlib.contextmanager
def working(count, work):
    """
    'count' threads that call work(their number) over and over during the block. They end with it, also when the
    test fails in it: the next one would find them still at work, and Python would wait for them at its end.
    """
    over = threading.Event()

    def run(i):
        while not over.is_set():
            work(i)
    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for t in threads:
        t.start()
    try:
        yield
    finally:
        over.set()
        for t in threads:
            t.join(30 * SLOW)

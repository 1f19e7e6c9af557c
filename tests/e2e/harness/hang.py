# SPDX-License-Identifier: Apache-2.0
"""A test that hangs fails, with what every thread was doing, and the ones after it run."""
import contextlib
import faulthandler
import signal
import sys

from .wait import SLOW

# Seconds for a fixture or a test: several times what the longest takes on a slow machine, and less than run-tests has.
LIMIT = min(1200 * SLOW, 3000)


class Hung(BaseException):
    """Not for those who catch every Exception of a test and go on."""


def _ring(signo, frame):
    del signo, frame
    with contextlib.suppress(OSError, ValueError, AttributeError):  # no file below it
        faulthandler.dump_traceback(sys.stderr)
    raise Hung


@contextlib.contextmanager
def guard(limit=LIMIT):
    """Raises Hung in the block, which is in the main thread, when it takes longer."""
    before = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

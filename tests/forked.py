"""A test's forked child. `os.fork` stands here alone: a child that leaves the test would run the rest of the session.

It would be a second pytest-xdist worker on the pipes of the first one, and the session would wait for both.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import traceback
from collections.abc import Callable

LIMIT_S = 60


def exit_code_of_fork(body: Callable[[], int]) -> int:
    """Runs `body` in a forked child. Returns its result, 1 after an exception, or the signal that ends a child after
    LIMIT_S seconds, negative; the child shows why on stderr."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            faulthandler.register(signal.SIGALRM, chain=True)
            signal.alarm(LIMIT_S)
            code = body()
        except BaseException:  # noqa: BLE001 - nothing may leave the child
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

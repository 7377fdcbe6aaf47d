"""What a server may do that its launcher may: read and write files. Linux, root."""

from __future__ import annotations

import ctypes
import sys

KEPT = (0, 1, 2, 3, 4)
"""Capabilities over files (capabilities(7)): CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID. Channels may belong
to other users."""
_DROP_FROM_BOUNDING_SET = 24  # prctl(2)
_VERSION_3 = 0x20080522  # capset(2)


def give_up_capabilities() -> None:
    """Gives up, for good, all capabilities of root but those over files. Such a process can read neither the memory nor
    the environment of one that has more, as launchers and scripts do (ptrace(2), "access mode checking"). To be called
    before the process has a second thread. Does nothing where there are none to give up."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    for number in range(64):  # more than any kernel knows; it refuses these, and all from a user who has none
        if number not in KEPT:
            libc.prctl(_DROP_FROM_BOUNDING_SET, number, 0, 0, 0)
    header, has = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, has)  # effective, permitted, inheritable, of the numbers below 32; then of those above
    left = has[1] & sum(1 << kept for kept in KEPT)
    libc.capset(header, (ctypes.c_uint32 * 6)(left, left))

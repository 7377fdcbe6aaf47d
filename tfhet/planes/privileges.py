"""The capabilities that a server keeps if its launcher is root (Linux): to open files and to listen at any port."""

from __future__ import annotations

import ctypes
import os
import sys

KEPT = (1, 10)
"""Capabilities (capabilities(7)): DAC_OVERRIDE, because channels may belong to other users, and NET_BIND_SERVICE."""
_DROP_FROM_BOUNDING_SET, _NO_NEW_PRIVILEGES = 24, 38  # prctl(2)
_VERSION_3 = 0x20080522  # capset(2)
_NUMBERS = range(64)  # more than kernels know; they refuse the others
_LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
_HEADER = (ctypes.c_uint32 * 2)(_VERSION_3, 0)


def give_up_capabilities() -> None:
    """Gives up all capabilities of root but KEPT for good. The process can then read neither the memory nor the
    environment of launchers and scripts, which have more (ptrace(2), "access mode checking"). Call it in a child
    between fork and exec, when it has one thread. It does nothing if the user is not root."""
    if _LIBC is None or os.geteuid() != 0:
        return
    # A program that root executes gets the bounding set, or nothing by no_new_privs if the set cannot be changed.
    _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    for number in _NUMBERS:
        if number not in KEPT:
            _LIBC.prctl(_DROP_FROM_BOUNDING_SET, number, 0, 0, 0)
    has = (ctypes.c_uint32 * 6)()
    _LIBC.capget(_HEADER, has)  # effective, permitted, inheritable: for numbers below 32, then above
    left = has[1] & sum(1 << number for number in KEPT)
    _LIBC.capset(_HEADER, (ctypes.c_uint32 * 6)(left, left))

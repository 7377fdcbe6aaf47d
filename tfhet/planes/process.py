"""A process of a data plane: the key, the memory settings and the capabilities that its launcher gives it."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

from tfhet.errors import NotReady
from tfhet.messages import inherited, rank

KEY_BYTES = 32
KEY_S = 30.0
"""Seconds that a process waits for the key from its launcher."""
_keys: dict[int, bytes] = {}
TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = {"glibc.malloc.hugetlb": 1}
"""Pages of 2 MiB, since glibc 2.35."""
THRESHOLDS = {"glibc.malloc.mmap_threshold": 32 << 20, "glibc.malloc.trim_threshold": 64 << 20}
"""Minimum bytes of a piece with a mapping of its own, and of free memory that a heap returns to the kernel."""
_OLDER = {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}
"""Variables that set the same thresholds."""
KEPT = (1, 10)
"""Capabilities (capabilities(7)): DAC_OVERRIDE, because channels may belong to other users, and NET_BIND_SERVICE."""
_DROP_FROM_BOUNDING_SET, _NO_NEW_PRIVILEGES = 24, 38  # prctl(2)
_VERSION_3 = 0x20080522  # capset(2)
_NUMBERS = range(64)  # more than kernels know; they refuse the others
_LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
_HEADER = (ctypes.c_uint32 * 2)(_VERSION_3, 0)


def key_from(env: Mapping[str, str]) -> bytes:
    """Returns the key that the launcher has sent to this process. Raises NotReady after KEY_S seconds."""
    channel = inherited(env)
    if id(channel) in _keys:
        return _keys[id(channel)]
    if (message := channel.receive(KEY_S, rank.Key)) is not None:
        return _keys.setdefault(id(channel), bytes.fromhex(message.key))
    raise NotReady(
        f"no key of the job's data plane came from the launcher within {KEY_S:g} s; only a process that it started "
        "gets one, so call tfhet.distribute, or tfhet.batches, in the training script itself"
    )


def with_malloc_tunables(env: Mapping[str, str]) -> dict[str, str]:
    """Returns `env` with settings for huge pages and for memory that stays with the process; settings of the user win.
    Other C libraries than glibc ignore them.

    By default glibc returns the memory of a batch to the kernel, and each fresh page of the next batch costs a fault.
    Huge pages are 512 times as large, so they cost 512 times fewer faults. Decoded photos are in heaps, which glibc
    shrinks as soon as 128 KiB at their end are free. The thresholds here are the largest that glibc would choose itself
    (mallopt(3), M_MMAP_THRESHOLD); it never chooses them for batches of photos.
    """
    present = [tunable for tunable in env.get(TUNABLES, "").split(":") if tunable]
    names = {tunable.partition("=")[0] for tunable in present}
    wanted = {} if names & HUGE_PAGES.keys() else HUGE_PAGES
    if not names & THRESHOLDS.keys() and not _OLDER & env.keys():  # setting one disables the other's default
        wanted = wanted | THRESHOLDS
    added = [f"{name}={value}" for name, value in wanted.items()]
    return {**env, TUNABLES: ":".join([*present, *added])} if added else dict(env)


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

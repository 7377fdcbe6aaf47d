"""Batches are in huge pages and keep their memory, unless the user has set otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tfhet.planes.process import TUNABLES, with_malloc_tunables

PAGES = "glibc.malloc.hugetlb=1"
THRESHOLDS = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=67108864"
BOTH = f"{PAGES}:{THRESHOLDS}"
AGAIN = """
import ctypes, resource
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
assert libc.prctl(41, 1, 0, 0, 0) == 0  # PR_SET_THP_DISABLE: pages of 4 kB
photos = (ctypes.c_void_p * 100)()  # allocated first: an allocation above the photos would keep them
def batch():  # each photo is below the threshold for memory of its own
    for index in range(100):
        photos[index] = libc.malloc(100 << 10)
        ctypes.memset(photos[index], 1, 100 << 10)
    for index in reversed(range(100)):
        libc.free(photos[index])
batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, BOTH),
        ("", BOTH),
        ("glibc.malloc.arena_max=2", f"glibc.malloc.arena_max=2:{BOTH}"),
        ("glibc.malloc.hugetlb=0", f"glibc.malloc.hugetlb=0:{THRESHOLDS}"),
        (
            "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=2",
            f"glibc.malloc.arena_max=2:glibc.malloc.hugetlb=2:{THRESHOLDS}",
        ),
        ("glibc.malloc.trim_threshold=1", f"glibc.malloc.trim_threshold=1:{PAGES}"),
        (f"glibc.malloc.mmap_threshold=1:{PAGES}", f"glibc.malloc.mmap_threshold=1:{PAGES}"),
        (BOTH, BOTH),
    ],
)
def test_user_settings_stay(before, after):
    env = {"PATH": "/bin"} if before is None else {"PATH": "/bin", TUNABLES: before}
    assert with_malloc_tunables(env) == {"PATH": "/bin", TUNABLES: after}


@pytest.mark.parametrize("name", ["MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"])
def test_older_variables_set_thresholds_too(name):
    assert with_malloc_tunables({name: "1000000"}) == {name: "1000000", TUNABLES: PAGES}


def printed(code: str, env: dict[str, str]) -> int:
    """The number that a process of Python prints."""
    env = {name: value for name, value in os.environ.items() if name != TUNABLES} | env
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    return int(done.stdout)


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="needs glibc")
def test_libc_keeps_memory_for_the_next_batch():
    small = {TUNABLES: "glibc.malloc.hugetlb=0"}
    assert printed(AGAIN, small) > 1000
    assert printed(AGAIN, with_malloc_tunables(small)) < 100

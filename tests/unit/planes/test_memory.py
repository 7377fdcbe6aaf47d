"""planes/tensorflow_process.py: large batches lie in huge pages, unless somebody has said otherwise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.planes.tensorflow_process import HUGE_PAGES, TUNABLES, in_huge_pages
from tfhet.planes.tf_service import Fleet

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
ALLOCATES = """
import ctypes, pathlib, re
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
size = 64 << 20
ctypes.memset(libc.malloc(size), 1, size)
print(sum(map(int, re.findall(r"AnonHugePages: +([0-9]+) kB", pathlib.Path("/proc/self/smaps").read_text()))))
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "glibc.malloc.hugetlb=1"),
        ("", "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.arena_max=2", "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
        ("glibc.malloc.arena_max=2:glibc.malloc.hugetlb=2", "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=2"),
    ],
)
def test_huge_pages_are_asked_for_unless_the_user_has_said_what_he_wants(before, after):
    env = {"PATH": "/bin"} if before is None else {"PATH": "/bin", TUNABLES: before}
    assert in_huge_pages(env) == {"PATH": "/bin", TUNABLES: after}


def test_pages_of_the_usual_size_can_be_asked_for():
    assert in_huge_pages({}, wanted=False) == {TUNABLES: "glibc.malloc.hugetlb=0"}


def test_the_processes_of_a_fleet_are_started_with_them():
    assert Fleet("algo-1", "127.0.0.1", {}, key=bytes(32), on_line=print)._env == {TUNABLES: f"{HUGE_PAGES}=1"}


def huge_kb(wanted: bool) -> int:
    """Kilobytes in huge pages of a process that has 64 MiB from the C library."""
    env = in_huge_pages({name: value for name, value in os.environ.items() if name != TUNABLES}, wanted)
    done = subprocess.run([sys.executable, "-c", ALLOCATES], env=env, capture_output=True, text=True, timeout=60)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_the_c_library_does_what_it_is_asked_for():
    version = (
        tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))) if sys.platform == "linux" else ()
    )
    if version < (2, 35):
        pytest.skip(f"glibc {version} does not know huge pages, 2.35 does")
    if not THP.is_file() or not re.search(r"\[(madvise|always)\]", THP.read_text()):
        pytest.skip(f"the kernel gives no huge pages: {THP}")
    assert huge_kb(True) >= 60 << 10
    if "[madvise]" in THP.read_text():
        assert huge_kb(False) == 0

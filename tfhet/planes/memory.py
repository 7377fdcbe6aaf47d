"""Memory of a process that moves large batches: in pages of 2 MiB, where the kernel gives them when asked. Linux.

The C library gives the memory of a large tensor back to the kernel when the tensor is gone, and gets the next one's as
fresh pages, each of which costs a fault: of a batch of 77 MB about as much CPU as all of its way over the wire
(`tfhet bench transport`: `small_pages`). Asked for pages that are 512 times as large, the kernel has 512 times fewer
faults to deal with. glibc from 2.35 on (its manual, Memory Allocation Tunables); others do not know the word.
"""

from __future__ import annotations

from collections.abc import Mapping

TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb"


def in_huge_pages(env: Mapping[str, str], wanted: bool = True) -> dict[str, str]:
    """`env` for such a process. What it says of huge pages already stays as it is."""
    told = [word for word in env.get(TUNABLES, "").split(":") if word]
    if any(word.startswith(f"{HUGE_PAGES}=") for word in told):
        return dict(env)
    return {**env, TUNABLES: ":".join([*told, f"{HUGE_PAGES}={int(wanted)}"])}

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tfhet.planes.privileges import KEPT

TRIES = """
import os, sys
from tfhet.planes.privileges import give_up_capabilities
give_up_capabilities()
give_up_capabilities()  # again: nothing to do
print([line for line in open("/proc/self/status") if line.startswith("Cap")])
for name in ("environ", "mem", "maps"):
    try:
        open(f"/proc/{os.getppid()}/{name}", "rb").close()
        print("opened", name)
    except PermissionError:
        print("may not", name)
after = "print([line for line in open('/proc/self/status') if line[:3] == 'Cap'])"
os.execv(sys.executable, [sys.executable, "-c", after])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")
def test_root_without_capabilities_cannot_read_who_has_them_and_does_not_get_them_back():
    ran = subprocess.run([sys.executable, "-uc", TRIES], capture_output=True, text=True, check=True)
    capabilities, *tried, after = ran.stdout.splitlines()
    assert tried == ["may not environ", "may not mem", "may not maps"]
    for line in (capabilities, after):
        values = {name: int(value, 16) for name, value in (entry.split(":\t") for entry in eval(line))}
        assert {name for name, value in values.items() if value} <= {"CapPrm", "CapEff", "CapBnd"}
        assert all(value & ~sum(1 << kept for kept in KEPT) == 0 for value in values.values())

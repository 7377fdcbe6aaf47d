from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfhet.planes.process import KEPT, give_up_capabilities

pytestmark = pytest.mark.timeout(60)
TRIES = """
import os
for name in ("environ", "mem", "maps"):
    try:
        open(f"/proc/{os.getppid()}/{name}", "rb").close()
        print("opened", name)
    except PermissionError:
        print("may not", name)
print(open("/proc/self/status").read())
"""


def tries(*before: str) -> tuple[list[str], dict[str, str]]:
    """Which files of this process a child can open, and the child's status. before: programs that run it."""
    command = [*before, sys.executable, "-ISc", TRIES]
    output = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=give_up_capabilities
    ).stdout.splitlines()
    return output[:3], {name: value.strip() for name, _, value in (line.partition(":") for line in output[3:])}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")
@pytest.mark.parametrize("before", [(), ("env", "env")], ids=["executed", "twice more"])
def test_root_loses_capabilities_for_good(before):
    if int(Path("/proc/self/status").read_text().split("CapPrm:")[1].split()[0], 16).bit_count() <= len(KEPT):
        pytest.skip("this process has no more capabilities than it would keep")
    tried, status = tries(*before)
    assert tried == ["may not environ", "may not mem", "may not maps"]
    kept = sum(1 << number for number in KEPT)
    assert all(int(status[name], 16) & ~kept == 0 for name in ("CapPrm", "CapEff", "CapBnd"))
    assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
    assert status["NoNewPrivs"] == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_user_keeps_its_state():
    def as_nobody() -> None:
        os.setuid(65534)
        give_up_capabilities()

    command = ["cat", "/proc/self/status"]
    output = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, preexec_fn=as_nobody, cwd="/"
    ).stdout
    assert "NoNewPrivs:\t0" in output

from __future__ import annotations

import socket

from tfhet.doctor.host import MACHINE, HostFacts, _busy, look
from tfhet.units import GIB


def test_this_machine_can_be_looked_at_and_every_rule_has_an_answer(tmp_path):
    here = look({"https_proxy": "http://proxy:1", "HTTP_PROXY": "ignored"}, {}, tmp_path / "not" / "there")
    assert isinstance(here, HostFacts) and here.cores >= here.cores_usable >= 1
    assert here.directory == str(tmp_path)
    assert here.proxies == ("https_proxy",)
    assert here.memory_bytes > here.memory_free_bytes > 0 and here.open_files > 0
    assert here.numa_nodes >= 1
    names = [check.name for check in MACHINE.checks(here)]
    assert set(names) == {rule.name for rule in MACHINE.rules}


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        (said,) = _busy([taken.getsockname()[1]])
        number = taken.getsockname()[1]
    assert said.startswith(f"port {number} at 0.0.0.0 is in use by")


def test_the_machine_without_a_proc_file_system_has_no_quota(tmp_path):
    (tmp_path / "proc").mkdir()
    here = look({}, {}, tmp_path, root=tmp_path)
    assert (here.cpu_quota, here.shm_bytes) == (None, None)
    assert here.memory_bytes > GIB // 4

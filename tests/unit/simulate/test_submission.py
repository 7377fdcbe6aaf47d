from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.simulate import ClusterFile, GroupFile
from tfhet.simulate.host import hosts_of, resource_config
from tfhet.simulate.submission import Submission
from tfhet.submit import LAUNCHER

CLUSTER = ClusterFile(
    "c", {"data_group": GroupFile(2), "dnn_group": GroupFile(2, ranks=3)}, launcher={"data_host_workers": 2}
)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "launcher.py").touch()
    return [str(tmp_path / "launcher.py"), "--dnn_host_workers", "1"]


def test_each_kind_of_hosts_has_its_usual_start(command):
    assert Submission.of(CLUSTER, command).start == "ranks"
    assert Submission.of(CLUSTER, command, hosts="namespace").start == "toolkit"
    assert Submission.of(CLUSTER, command, hosts="namespace", start="alone").start == "alone"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"hosts": "docker"}, "known: namespace, process"),
        ({"start": "toolkit"}, "start on process hosts .*known: alone, ranks"),
        ({"hosts": "namespace", "start": "ranks"}, "known: alone, toolkit"),
        ({"input_mode": "Pipe"}, "known: FastFile, File"),
        ({"limits_from": "later"}, "known: reading, start"),
        ({"code": Path("/nowhere")}, None),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(command, how, words):
    if words is None:  # an absolute path needs no code directory
        Submission.of(CLUSTER, command, **how)
        return
    with pytest.raises(UsageError, match=words):
        Submission.of(CLUSTER, command, **how)


def test_the_program_is_looked_for_in_the_code_directory(tmp_path, command):
    assert Submission.of(CLUSTER, ["launcher.py"], code=tmp_path).program == tmp_path / "launcher.py"
    with pytest.raises(UsageError, match="expected a Python file"):
        Submission.of(CLUSTER, ["launcher.py"], code=tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="expected a Python file"):
        Submission.of(CLUSTER, [], code=tmp_path)


def test_containers_have_the_platforms_ports_and_addresses_of_their_own(command, tmp_path):
    hosts = hosts_of(Submission.of(CLUSTER, command, hosts="namespace"), tmp_path, seed=1, detours=True)
    assert [host.address for host in hosts] == [f"10.77.0.{n}" for n in range(2, 6)]
    assert {(host.ports.control, host.ports.plane["dispatcher"]) for host in hosts} == {(16000, (6000,))}
    for host in hosts:
        assert host.ports.plane["workers"] == ((6001, 6002) if host.group == "data_group" else (6001,))
        assert host.ranks == (3 if host.group == "dnn_group" else 1)
        assert host.detour is None


def test_the_launchers_arguments_are_the_cluster_files_and_then_the_users(command):
    job = Submission.of(CLUSTER, command)
    assert job.command[1:] == ["--data_host_workers", "2", "--dnn_host_workers", "1"]
    service = job.settings.planes["tf_service"]
    assert (service.data_host_workers, service.dnn_host_workers) == (2, 1)


def test_every_host_reads_who_is_there_and_how_its_interface_is_called(command, tmp_path):
    job = Submission.of(CLUSTER, command, hosts="namespace")
    hosts = hosts_of(job, tmp_path, seed=0)
    config = resource_config(job, hosts[2], hosts)
    assert config["current_host"] == "algo-3"
    assert config["current_group_name"] == hosts[2].group
    assert config["network_interface_name"] == "eth0"
    members = {group["instance_group_name"]: group["hosts"] for group in config["instance_groups"]}
    assert members == {
        name: [host.name for host in hosts if host.group == name] for name in ("data_group", "dnn_group")
    }


def test_arguments_alone_are_those_of_the_packages_own_launcher(tmp_path):
    with pytest.raises(UsageError, match=rf"^--train_script train.py: no such file in {tmp_path} \(--source_dir\)$"):
        Submission.of(CLUSTER, ["--train_script", "train.py"], code=tmp_path)
    (tmp_path / "train.py").touch()
    made = Submission.of(CLUSTER, ["--train_script", "train.py"], code=tmp_path)
    assert made.program == LAUNCHER and made.program.is_file()
    assert made.command[-2:] == ["--train_script", "train.py"]
    assert made.settings.train_script == "train.py"

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.simulate import ClusterFile, GroupFile
from tfhet.simulate.host import hosts_of, resource_config
from tfhet.simulate.submission import Submission, of_job
from tfhet.submit import LAUNCHER, Job, parse

CLUSTER = ClusterFile(
    "c", {"data_group": GroupFile(2), "dnn_group": GroupFile(2, ranks=3)}, launcher={"data_host_workers": 2}
)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "launcher.py").touch()
    return [str(tmp_path / "launcher.py"), "--dnn_host_workers", "1"]


def test_start_depends_on_the_kind_of_hosts(command):
    assert Submission.of(CLUSTER, command, code=Path("/nowhere")).start == "ranks"
    assert Submission.of(CLUSTER, command, hosts="namespace").start == "toolkit"
    assert Submission.of(CLUSTER, command, hosts="namespace", start="alone").start == "alone"


@pytest.mark.parametrize(
    ("how", "known"),
    [
        ({"hosts": "docker"}, "namespace, process"),
        ({"start": "toolkit"}, "alone, ranks"),
        ({"hosts": "namespace", "start": "ranks"}, "alone, toolkit"),
        ({"input_mode": "Pipe"}, "FastFile, File"),
        ({"limits_from": "later"}, "reading, start"),
    ],
)
def test_unknown_option_is_refused(command, how, known):
    with pytest.raises(UsageError, match=f"known: {known}"):
        Submission.of(CLUSTER, command, **how)


@pytest.mark.parametrize("words", [[], ["nowhere.py"], ["--train_script", "train.py"]])
def test_program_must_exist(tmp_path, words):
    with pytest.raises(UsageError):
        Submission.of(CLUSTER, words, code=tmp_path)


def test_command_has_arguments_of_file_and_user(command, tmp_path):
    job = Submission.of(CLUSTER, [Path(command[0]).name, *command[1:]], code=tmp_path)
    assert job.program == Path(command[0])
    assert job.command[1:] == ["--data_host_workers", "2", "--dnn_host_workers", "1"]
    service = job.settings.planes["tf_service"]
    assert (service.data_host_workers, service.dnn_host_workers) == (2, 1)
    (tmp_path / "train.py").touch()
    made = Submission.of(CLUSTER, ["--train_script", "train.py"], code=tmp_path)
    assert made.program == LAUNCHER and made.program.is_file()
    assert made.command[-2:] == ["--train_script", "train.py"]


def test_containers_have_addresses_and_usual_ports(command, tmp_path):
    job = Submission.of(CLUSTER, command, hosts="namespace")
    hosts = hosts_of(job, tmp_path, seed=1, detours=True)
    assert [host.address for host in hosts] == [f"10.77.0.{n}" for n in range(2, 6)]
    assert {(host.ports.control, host.ports.plane["dispatcher"]) for host in hosts} == {(16000, (6000,))}
    for host in hosts:
        assert host.ports.plane["workers"] == ((6001, 6002) if host.group == "data_group" else (6001,))
        assert host.ranks == (3 if host.group == "dnn_group" else 1)
        assert host.detour is None
    config = resource_config(job, hosts[2], hosts)
    assert (config["current_host"], config["current_group_name"]) == ("algo-3", hosts[2].group)
    assert config["network_interface_name"] == "eth0"
    members = {group["instance_group_name"]: group["hosts"] for group in config["instance_groups"]}
    assert members == {name: [host.name for host in hosts if host.group == name] for name in CLUSTER.groups}


@pytest.mark.parametrize(
    ("words", "is_refused"),
    [
        (["--model", "emulated"], True),
        (["--data", "other"], True),
        (["--data", "synthetic:8:2"], False),
        (["--data", "mine"], False),
    ],
)
def test_missing_channel_is_refused_before_the_start(words, is_refused):
    cluster = ClusterFile("small", {"dnn_group": GroupFile()}, {"mine": "/nowhere"})
    with pytest.raises(UsageError, match="channel.* mine") if is_refused else contextlib.nullcontext():
        Submission.of(cluster, words)


@pytest.mark.parametrize(("hosts", "count", "is_possible"), [("process", 1000, True), ("namespace", 253, False)])
def test_each_of_many_hosts_has_an_address(command, tmp_path, hosts, count, is_possible):
    job = Submission.of(ClusterFile("many", {"dnn_group": GroupFile(count)}), command, hosts=hosts, start="alone")
    if not is_possible:
        with pytest.raises(UsageError, match="--hosts process"):
            hosts_of(job, tmp_path, seed=1)
        return
    assert len({host.address for host in hosts_of(job, tmp_path, seed=1)}) == count


TEXT = """\
name: digits
image: 123456789012.dkr.ecr.us-east-1.amazonaws.com/tfhet:0.1
role: arn:aws:iam::123456789012:role/training
output: s3://my-bucket/jobs
code: {directory: code, script: launcher.py}
hyperparameters: {learning-rate: 1e-3, export: false}
environment: {OF_THE_JOB: "1"}
channels:
  training: {uri: "s3://my-bucket/a", local: digits/train, groups: [data_group, dnn_group], mode: FastFile}
  validation: {uri: "s3://my-bucket/b", local: here, groups: [dnn_group]}
  more: {uri: "s3://my-bucket/c", groups: [dnn_group]}
groups:
  data_group: {type: ml.c5.xlarge, count: 2}
  dnn_group: {type: ml.p3.8xlarge, count: 1}
limits: {max_run_s: 600}
"""


def job_of(tmp_path: Path, text: str = TEXT) -> Job:
    (tmp_path / "code").mkdir(exist_ok=True)
    (tmp_path / "code" / "launcher.py").write_text("")
    return parse(text, str(tmp_path / "job.yaml"))


def test_job_file_becomes_a_cluster_and_a_submission(tmp_path):
    cluster, command, options = of_job(job_of(tmp_path))
    assert {name: (group.hosts, group.ranks, group.instance_type) for name, group in cluster.groups.items()} == {
        "data_group": (2, 1, "ml.c5.xlarge"),
        "dnn_group": (1, 4, "ml.p3.8xlarge"),
    }
    channels = {"training": "digits/train", "validation": str(tmp_path / "here"), "more": "s3://my-bucket/c"}
    assert cluster.channels == channels
    made = Submission.of(cluster, command, **options)
    assert made.command == ["launcher.py", "--export", "False", "--learning-rate", "1e-3"]
    assert made.environment == {"OF_THE_JOB": "1"} and made.dnn_group == "dnn_group"
    assert [made.mode(name) for name in ("training", "validation")] == ["FastFile", "File"]
    assert list(made.seen_by("data_group", cluster.channels)) == ["training"]
    assert list(made.seen_by("dnn_group", cluster.channels)) == list(channels)
    cluster, command, options = of_job(job_of(tmp_path, TEXT + "start: alone\n"))
    assert Submission.of(cluster, command, **options).start == "alone"


def test_words_win_over_the_jobs_hyperparameters(tmp_path):
    cluster, command, options = of_job(job_of(tmp_path), ["--export", "True"])
    made = Submission.of(cluster, command, **options)
    assert made.command[-2:] == ["--export", "True"] and made.parameters is not None
    parameters = {name: json.loads(value) for name, value in made.parameters.items()}
    assert parameters == {"learning-rate": "1e-3", "export": "True"}


def test_pipe_is_refused_with_its_line(tmp_path):
    with pytest.raises(UsageError, match=r"job\.yaml:9: channels: training: mode"):
        of_job(job_of(tmp_path, TEXT.replace("FastFile", "Pipe")))

"""The arguments of AWS's launcher for Ray, in tfhet's words, and the hosts that have a rank."""

import pytest

from tfhet.cluster import DNN, Cluster, Group, Identity, roles
from tfhet.errors import UsageError
from tfhet.launch import LaunchSettings
from tfhet.strategies import get

RAY = get("ray")


@pytest.mark.parametrize(
    ("theirs", "script", "group", "cpus"),
    [
        (["-e", "train.py", "--head-instance-group", "gpus", "--head-num-cpus", "0"], "train.py", "gpus", 0),
        (["--entrypoint=train.py", "--head_instance_group=gpus", "--wait-shutdown", "5"], "train.py", "gpus", -1),
        (["--strategy", "ray", "-e", "train.py", "--head-num-cpus", "3"], "train.py", "", 3),
        (["--strategy", "ray", "--train_script", "train.py"], "train.py", "", -1),
    ],
)
def test_arguments_of_the_launcher_of_aws_are_understood(theirs, script, group, cpus):
    settings, rest = LaunchSettings.parse([*theirs, "--epochs", "3"])
    assert (settings.strategy, settings.data_plane) == ("ray", "ray")
    assert (settings.train_script, settings.dnn_group, settings.planes["ray"].dnn_host_cpus) == (script, group, cpus)
    assert rest == ["--epochs", "3"]


def test_a_scripts_own_arguments_stay_as_they_were_written_beside_those_of_aws():
    theirs = ["-e", "train.py", "--head-instance-group=gpus", "--launch-prometheus=true"]
    own = ["--learning-rate", "0.1", "--aug=", "--opt=-1", "--lr-decay=0.5"]
    settings, rest = LaunchSettings.parse([*theirs, *own])
    assert (settings.train_script, settings.dnn_group, settings.strategy) == ("train.py", "gpus", "ray")
    assert rest == own


def test_a_scripts_own_arguments_are_left_to_it():
    for own in (["--strategy", "torch", "-e", "5"], ["--train_script", "a.py", "-e", "5"]):
        assert LaunchSettings.parse(own)[1] == ["-e", "5"]
    own = ["--strategy", "ray", "--train_script", "a.py", "-e", "5", "--size=3"]
    assert LaunchSettings.parse(own)[1] == ["-e", "5", "--size=3"]


def test_another_data_plane_is_wrong_use():
    with pytest.raises(UsageError, match="runs on the data plane 'ray', and on no other; omit --data_plane"):
        LaunchSettings.parse(["--strategy", "ray", "--data_plane", "feed"])


def test_the_first_dnn_host_has_the_only_rank():
    groups = (Group("gpus", ("a", "b", "c"), None), Group("cpus", ("d",), None))
    for host, name in (("a", "dnn"), ("b", "node"), ("d", "data")):
        group = next(one.name for one in groups if host in one.hosts)
        parts = roles(Identity(host, group, Cluster(groups, "lo")), {"dnn": "gpus"})
        led = parts.led_by_first(host, RAY.role_of_others)
        assert (led.current.name, led.current.trains) == (name, name == "dnn")
        assert (led.dnn_hosts, led.hosts("node"), led.data_hosts) == (("a",), ("b", "c"), ("d",))
        assert {*led.other_hosts} == {"b", "c", "d"}
        assert parts.led_by_first(host, None) is parts
    alone = roles(Identity("a", "gpus", Cluster(groups[:1], "lo")), {"dnn": "gpus"})
    assert alone.current is DNN

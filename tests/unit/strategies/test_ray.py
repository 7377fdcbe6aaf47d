"""The arguments of AWS's launcher for Ray, and the hosts that have a rank."""

import pytest

from tfhet.cluster import DNN, Cluster, Group, Identity, roles
from tfhet.errors import UsageError
from tfhet.launch import LaunchSettings
from tfhet.strategies import get

OWN = ["--learning-rate", "0.1", "--aug=", "--opt=-1", "--lr-decay=0.5"]


@pytest.mark.parametrize(
    ("arguments", "script", "group", "cpus"),
    [
        (["-e", "train.py", "--head-instance-group", "gpus", "--head-num-cpus", "0"], "train.py", "gpus", 0),
        (["--entrypoint=train.py", "--head_instance_group=gpus", "--wait-shutdown", "5"], "train.py", "gpus", -1),
        (["-e", "train.py", "--head-instance-group=gpus", "--launch-prometheus=true"], "train.py", "gpus", -1),
        (["--strategy", "ray", "-e", "train.py", "--head-num-cpus", "3"], "train.py", "", 3),
        (["--strategy", "ray", "--train_script", "train.py"], "train.py", "", -1),
    ],
)
def test_arguments_of_aws_are_understood(arguments, script, group, cpus):
    settings, rest = LaunchSettings.parse([*arguments, *OWN])
    assert (settings.strategy, settings.data_plane) == ("ray", "ray")
    assert (settings.train_script, settings.dnn_group, settings.planes["ray"].dnn_host_cpus) == (script, group, cpus)
    assert rest == OWN, "the script's own arguments"


@pytest.mark.parametrize(
    "first", [["--strategy", "torch"], ["--train_script", "a.py"], ["--strategy", "ray", "--train_script", "a.py"]]
)
def test_scripts_keep_their_arguments(first):
    assert LaunchSettings.parse([*first, "-e", "5", "--size=3"])[1] == ["-e", "5", "--size=3"]


def test_other_data_plane_is_refused():
    with pytest.raises(UsageError, match="--data_plane"):
        LaunchSettings.parse(["--strategy", "ray", "--data_plane", "feed"])


def test_only_the_first_dnn_host_has_a_rank():
    groups = (Group("gpus", ("a", "b", "c"), None), Group("cpus", ("d",), None))
    for host, name in (("a", "dnn"), ("b", "node"), ("d", "data")):
        group = next(one.name for one in groups if host in one.hosts)
        parts = roles(Identity(host, group, Cluster(groups, "lo")), {"dnn": "gpus"})
        led = parts.led_by_first(host, get("ray").role_of_others)
        assert (led.current.name, led.current.trains) == (name, name == "dnn")
        assert (led.dnn_hosts, led.hosts("node"), led.data_hosts) == (("a",), ("b", "c"), ("d",))
        assert {*led.other_hosts} == {"b", "c", "d"}
        assert parts.led_by_first(host, None) is parts
    assert roles(Identity("a", "gpus", Cluster(groups[:1], "lo")), {"dnn": "gpus"}).current is DNN

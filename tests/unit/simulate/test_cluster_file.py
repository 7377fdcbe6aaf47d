from __future__ import annotations

from pathlib import Path

import pytest

from tfhet.errors import UsageError
from tfhet.launch import LaunchSettings
from tfhet.simulate import ClusterFile, GroupFile, load, presets

WHOLE = """
name: two
groups:
  data_group:
    {hosts: 2, instance_type: ml.c5.xlarge, cpus: 0.2, memory_mib: 512, mbit_per_s: 100, latency_ms: 0.5, loss_pct: 2}
  dnn_group: {hosts: 1, ranks: 4}
channels: {training: digits/train}
launcher: {data_host_workers: 2, lease_s: 4.5}
"""


def test_whole_file_is_read():
    assert ClusterFile.parse(WHOLE, "two.yaml") == ClusterFile(
        "two",
        {
            "data_group": GroupFile(2, 1, "ml.c5.xlarge", 0.2, 512, mbit_per_s=100, latency_ms=0.5, loss_pct=2),
            "dnn_group": GroupFile(1, 4),
        },
        {"training": "digits/train"},
        {"data_host_workers": "2", "lease_s": "4.5"},
    )


def test_launcher_arguments_are_words():
    arguments = ClusterFile.parse(WHOLE, "x").arguments()
    assert arguments == ["--data_host_workers", "2", "--lease_s", "4.5"]
    assert LaunchSettings.parse(arguments)[0].planes["tf_service"].data_host_workers == 2


@pytest.mark.parametrize("name", presets())
def test_preset_has_a_group_that_trains(name):
    cluster = load(name)
    assert cluster.name == name and set(cluster.channels) == {"training", "validation"}
    assert len(cluster.groups) == 1 or "dnn_group" in cluster.groups
    LaunchSettings.parse(cluster.arguments())


@pytest.mark.parametrize("name", ["small.yaml", "small"])
def test_file_is_found_by_path(tmp_path: Path, name: str):
    (tmp_path / name).write_text("groups: {only: }")
    assert load(str(tmp_path / name)) == ClusterFile("small", {"only": GroupFile()})


@pytest.mark.parametrize(
    "name",
    ["dem", "nowhere.yaml", "binary.yaml", "x" * 5000, "\0.yaml", "\ud800.yaml", "x" * 300 + ".yaml"],
    ids=["unknown", "missing", "binary", "long", "nul", "surrogate", "long file"],
)
def test_unreadable_file_is_refused(tmp_path: Path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="demo, homogeneous, two-data-two-dnn" if name == "dem" else None):
        load(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: [", "f.yaml: not YAML: "),
        ("", "f.yaml: it is empty"),
        ("- a", "f.yaml:1: the file must be a mapping of name, groups, channels, launcher"),
        ("groups: {a: {}}\nhosts: 2", "f.yaml:2: the name 'hosts' must be one of name, groups, channels, launcher"),
        ("name: 'a b'\ngroups: {a: {}}", "f.yaml:1: name must be a name of letters, digits"),
        ("name: ../x\ngroups: {a: {}}", "f.yaml:1: name must be a name of letters, digits, '.', '_' and '-'"),
        ("name: x", "f.yaml:1: groups must be given"),
        ("name: x\nname: y\ngroups: {}", "f.yaml:2: the name 'name' must be given once"),
        ("groups: {}", "f.yaml:1: groups must be 1 to 100 hosts together"),
        ("groups: {a: 3}", "f.yaml:1: groups: a must be a mapping of hosts, ranks, "),
        ("groups: {a b: {}}", "f.yaml:1: groups: a b must be called by a name of letters"),
        ("groups: {a: {host: 1}}", "f.yaml:1: groups: a: the name 'host' must be one of hosts, ranks, "),
        ("groups:\n a: {hosts: many}", "f.yaml:2: groups: a: hosts must be a whole number from 0 to 100; it is 'many'"),
        ("groups: {a: {hosts: true}}", "hosts must be a whole number from 0 to 100; it is 'true'"),
        ("groups: {a: {hosts: -1}}", "hosts must be a whole number from 0 to 100; it is '-1'"),
        ("groups: {a: {ranks: 0}}", "ranks must be a whole number from 1 to 100; it is '0'"),
        ("groups: {a: {instance_type: a b}}", "groups: a: instance_type must be a name of letters"),
        ("groups: {a: {cpus: 0}}", "groups: a: cpus must be a number from 0.01 to 1000; it is '0'"),
        ("groups: {a: {cpus: nan}}", "groups: a: cpus must be a number from 0.01 to 1000; it is 'nan'"),
        ("groups: {a: {memory_mib: 1g}}", "groups: a: memory_mib must be a number from 64 to 1e+08; it is '1g'"),
        ("groups: {a: {latency_ms: 0}}", "groups: a: latency_ms must be a number from 0.001 to 10000; it is '0'"),
        ("groups: {a: {loss_pct: 100}}", "groups: a: loss_pct must be a number from 0.0001 to 90; it is '100'"),
        ("groups: {a: {mbit_per_s: -1}}", "groups: a: mbit_per_s must be a number from 0.1 to 1e+07; it is '-1'"),
        ("groups: {a: {hosts: 0}}", "f.yaml:1: groups must be 1 to 100 hosts together"),
        ("groups: {a: {hosts: 60}, b: {hosts: 60}}", "f.yaml:1: groups must be 1 to 100 hosts together"),
        ("groups: {a: {}}\nchannels: [x]", "f.yaml:2: channels must be a mapping of NAME: VALUE"),
        ("groups: {a: {}}\nchannels: {../x: y}", "f.yaml:2: channels: ../x must be called by a name"),
        ("groups: {a: {}}\nlauncher: {x: [1]}", "f.yaml:2: launcher: x must be a single value; it is not"),
        ("groups: {a: {}}\nlauncher: 5", "f.yaml:2: launcher must be a mapping of NAME: VALUE"),
        ("groups: {a: {}}\nlauncher: {a b: 1}", "f.yaml:2: launcher: a b must be called by a name"),
    ],
)
def test_what_is_wrong_is_named_with_file_line_and_field(text, message):
    with pytest.raises(UsageError) as caught:
        ClusterFile.parse(text, "f.yaml")
    assert message in str(caught.value)


def test_yaml_alias_repeats_a_group():
    read = ClusterFile.parse("groups: {a: &a {hosts: 2, ranks: 3}, b: *a}", "f.yaml")
    assert read.groups["b"] == read.groups["a"] == GroupFile(2, 3)


@pytest.mark.parametrize(("file", "name"), [("my cluster.yaml", "my-cluster"), ("..yaml", "cluster"), ("a.yaml", "a")])
def test_default_name_is_the_files(file, name):
    assert ClusterFile.parse("groups: {a: {}}", file).name == name

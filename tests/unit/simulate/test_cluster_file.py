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


def test_a_whole_file_is_read():
    assert ClusterFile.parse(WHOLE, "two.yaml") == ClusterFile(
        "two",
        {
            "data_group": GroupFile(2, 1, "ml.c5.xlarge", 0.2, 512, mbit_per_s=100, latency_ms=0.5, loss_pct=2),
            "dnn_group": GroupFile(1, 4),
        },
        {"training": "digits/train"},
        {"data_host_workers": 2, "lease_s": 4.5},
    )


def test_what_is_left_out_has_a_default(tmp_path: Path):
    file = tmp_path / "small.yaml"
    file.write_text("groups: {only: }")
    assert load(str(file)) == ClusterFile("small", {"only": GroupFile()})


def test_the_launchers_arguments_are_words():
    arguments = ClusterFile.parse(WHOLE, "x").arguments()
    assert arguments == ["--data_host_workers", "2", "--lease_s", "4.5"]
    assert LaunchSettings.parse(arguments)[0].planes["tf_service"].data_host_workers == 2


@pytest.mark.parametrize("name", presets())
def test_a_preset_is_a_cluster_with_somebody_to_train(name):
    cluster = load(name)
    assert cluster.name == name
    assert set(cluster.channels) == {"training", "validation"}
    assert len(cluster.groups) == 1 or "dnn_group" in cluster.groups
    LaunchSettings.parse(cluster.arguments())


def test_a_file_is_found_by_path_whatever_its_name_ends_with(tmp_path: Path):
    file = tmp_path / "demo"
    file.write_text("groups: {a: {hosts: 3}}")
    assert load(str(file)).groups["a"].hosts == 3


def test_an_unknown_cluster_names_the_presets():
    with pytest.raises(UsageError, match="unknown cluster 'dem': .*presets: demo, homogeneous, two-data-two-dnn"):
        load("dem")


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match=r"nowhere\.yaml: cannot be read"):
        load(str(tmp_path / "nowhere.yaml"))


def test_a_file_that_is_no_text_is_named(tmp_path: Path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"binary\.yaml: cannot be read"):
        load(str(tmp_path / "binary.yaml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: [", "f.yaml: not YAML: "),
        ("", "f.yaml: expected NAME: VALUE pairs, not None"),
        ("- a", "f.yaml: expected NAME: VALUE pairs"),
        ("groups: {a: {}}\nhosts: 2", "f.yaml: unknown field 'hosts'; known: channels, groups, launcher, name"),
        ("name: 'a b'\ngroups: {a: {}}", "f.yaml: name must be a word"),
        ("name: ../x\ngroups: {a: {}}", "f.yaml: name must be a word"),
        ("name: 7\ngroups: {a: {}}", "f.yaml: name must be a word of letters, digits, '.', '_' and '-', not 7"),
        ("name: x", "f.yaml: groups: expected NAME: VALUE pairs, not None"),
        ("groups: {}", "f.yaml: groups is empty"),
        ("groups: {a: 3}", "f.yaml: groups: a: expected NAME: VALUE pairs, not 3"),
        ("groups: {a b: {}}", "f.yaml: groups: 'a b' is no name for a group"),
        ("groups: {1: {}}", "f.yaml: groups: 1 is no name for a group"),
        ("groups: {a: {host: 1}}", "f.yaml: groups: a: unknown field 'host'; known: cpus, hosts, "),
        ("groups: {a: {hosts: many}}", "f.yaml: groups: a: hosts must be a number from 0 to 100, not 'many'"),
        ("groups: {a: {hosts: true}}", "f.yaml: groups: a: hosts must be a number from 0 to 100, not True"),
        ("groups: {a: {hosts: -1}}", "f.yaml: groups: a: hosts must be a number from 0 to 100, not -1"),
        ("groups: {a: {ranks: 0}}", "f.yaml: groups: a: ranks must be a number from 1 to 100, not 0"),
        ("groups: {a: {instance_type: 5}}", "f.yaml: groups: a: instance_type must be text, not 5"),
        ("groups: {a: {cpus: 0}}", "f.yaml: groups: a: cpus must be a number from 0.01 to 1000, not 0"),
        ("groups: {a: {cpus: true}}", "f.yaml: groups: a: cpus must be a number from 0.01 to 1000, not True"),
        ("groups: {a: {cpus: .nan}}", "f.yaml: groups: a: cpus must be a number from 0.01 to 1000, not nan"),
        ("groups: {a: {memory_mib: 1g}}", "f.yaml: groups: a: memory_mib must be a number from 64 to 1e+08, not '1g'"),
        ("groups: {a: {latency_ms: 0}}", "f.yaml: groups: a: latency_ms must be a number from 0.001 to 10000, not 0"),
        ("groups: {a: {loss_pct: 100}}", "f.yaml: groups: a: loss_pct must be a number from 0.0001 to 90, not 100"),
        ("groups: {a: {mbit_per_s: -1}}", "f.yaml: groups: a: mbit_per_s must be a number from 0.1 to 1e+07, not -1"),
        ("groups: {a: {hosts: 0}}", "f.yaml: a simulated cluster has 1 to 100 hosts"),
        ("groups: {a: {hosts: 60}, b: {hosts: 60}}", "f.yaml: a simulated cluster has 1 to 100 hosts"),
        ("groups: {a: {}}\nchannels: [x]", "f.yaml: channels: expected NAME: VALUE pairs"),
        ("groups: {a: {}}\nchannels: {../x: y}", "f.yaml: channels: '../x': expected NAME: DIRECTORY"),
        ("groups: {a: {}}\nchannels: {x: 5}", "f.yaml: channels: 'x': expected NAME: DIRECTORY, not 5"),
        ("groups: {a: {}}\nlauncher: {x: [1]}", "f.yaml: launcher: 'x': expected ARGUMENT: VALUE, not list"),
        ("groups: {a: {}}\nlauncher: 5", "f.yaml: launcher: expected NAME: VALUE pairs"),
        ("groups: {a: {}}\nlauncher: {a b: 1}", "f.yaml: launcher: 'a b': expected ARGUMENT: VALUE"),
        ("name: 2024-02-31", "f.yaml: not YAML: day is out of range for month"),
        ("name: !!int ''", "f.yaml: not YAML: "),
        # Nested merges, which would take for ever.
        (
            "\n".join(["- &a0 {x: 1}", *(f"- &a{n + 1} {{<<: [*a{n}, *a{n}]}}" for n in range(40))]),
            "f.yaml: not YAML: a mapping of more than",
        ),
    ],
)
def test_what_is_wrong_is_named_with_file_and_field(text, message):
    with pytest.raises(UsageError) as caught:
        ClusterFile.parse(text, "f.yaml")
    assert message in str(caught.value)


def test_a_mapping_may_merge_another():
    read = ClusterFile.parse("groups: {a: &a {hosts: 2, ranks: 3}, b: {<<: *a, hosts: 1}}", "f.yaml")
    assert (read.groups["b"].hosts, read.groups["b"].ranks) == (1, 3)


@pytest.mark.parametrize(
    "name", ["x" * 5000, "\0.yaml", "\ud800.yaml", "x" * 300 + ".yaml"], ids=["long", "nul", "surrogate", "long file"]
)
def test_what_cannot_be_the_name_of_a_file_is_wrong_use(name):
    with pytest.raises(UsageError, match="cannot be read"):
        load(name)

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


VALUES = "hosts: true, hosts: -1, ranks: 0, cpus: 0, memory_mib: 1g, latency_ms: 0, mbit_per_s: -1, loss_pct: 99"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("groups: [", " not YAML"),
        ("", "1: groups"),
        ("- a", "1: the file"),
        ("groups: {a: {}}\nhosts: 2", "2: the name 'hosts'"),
        ("name: 'a b'\ngroups: {a: {}}", "1: name"),
        ("name: ../x\ngroups: {a: {}}", "1: name"),
        ("name: x", "1: groups"),
        ("name: x\nname: y\ngroups: {}", "2: the name 'name'"),
        ("groups: {}", "1: groups"),
        ("groups: {a: 3}", "1: groups: a"),
        ("groups: {a b: {}}", "1: groups: a b"),
        ("groups: {[a]: {}}", "1: groups: None"),
        ("groups: {a: {host: 1}}", "1: groups: a: the name 'host'"),
        ("groups:\n a: {hosts: many}", "2: groups: a: hosts"),
        *((f"groups: {{a: {{{text}}}}}", f"1: groups: a: {text.split(':')[0]}") for text in VALUES.split(", ")),
        ("groups: {a: {hosts: 0}}", "1: groups"),
        ("groups: {a: {hosts: 600}, b: {hosts: 600}}", "1: groups"),
        ("groups: {a: {}}\nchannels: [x]", "2: channels"),
        ("groups: {a: {}}\nchannels: {../x: y}", "2: channels: ../x"),
        ("groups: {a: {}}\nlauncher: {x: [1]}", "2: launcher: x"),
        ("groups: {a: {}}\nlauncher: 5", "2: launcher"),
        ("groups: {a: {}}\nlauncher: {a b: 1}", "2: launcher: a b"),
    ],
)
def test_a_wrong_part_is_named_with_its_line(text, where):
    with pytest.raises(UsageError) as caught:
        ClusterFile.parse(text, "f.yaml")
    assert str(caught.value).startswith(f"f.yaml:{where}")


def test_all_mistakes_are_named_at_once():
    with pytest.raises(UsageError) as caught:
        ClusterFile.parse("name: 'a b'\ngroups:\n a: {hosts: x, cpu: 3}\n b: {ranks: 0}\nchannel: {}", "f.yaml")
    assert [mistake.partition(" must ")[0] for mistake in caught.value.mistakes] == [
        "f.yaml:1: name",
        "f.yaml:3: groups: a: the name 'cpu'",
        "f.yaml:3: groups: a: hosts",
        "f.yaml:4: groups: b: ranks",
        "f.yaml:5: the name 'channel'",
    ]
    assert "did you mean cpus?" in str(caught.value) and "did you mean channels?" in str(caught.value)


def test_yaml_alias_repeats_a_group():
    read = ClusterFile.parse("groups: {a: &a {hosts: 2, ranks: 3}, b: *a}", "f.yaml")
    assert read.groups["b"] == read.groups["a"] == GroupFile(2, 3)


@pytest.mark.parametrize(("file", "name"), [("my cluster.yaml", "my-cluster"), ("..yaml", "cluster"), ("a.yaml", "a")])
def test_default_name_is_the_files(file, name):
    assert ClusterFile.parse("groups: {a: {}}", file).name == name

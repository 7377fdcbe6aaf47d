"""Whatever the files, variables and packets of a job hold, they are read, or refused by the documented error."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from rubbish import filled, fuzz, json_bytes, json_text, mutated, spoilt, texts

from tfhet.cluster import Identity, PortRange, Ports, identify, job_name, resolve, roles
from tfhet.control import Secret
from tfhet.errors import ClusterError, UsageError
from tfhet.messages import rank, server
from tfhet.schema import MessageError, decode
from tfhet.simulate.cluster_file import load
from tfhet.strategies import JobContext, rank_of

HETEROGENEOUS = {
    "current_host": "algo-1",
    "current_instance_type": "ml.c5.18xlarge",
    "current_group_name": "data_group",
    "hosts": ["algo-1", "algo-2", "algo-3"],
    "instance_groups": [
        {"instance_group_name": "data_group", "instance_type": "ml.c5.18xlarge", "hosts": ["algo-1", "algo-3"]},
        {"instance_group_name": "dnn_group", "instance_type": "ml.p4d.24xlarge", "hosts": ["algo-2"]},
    ],
    "network_interface_name": "eth0",
}
HOMOGENEOUS = {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], "network_interface_name": "eth0"}
WORDS = (
    *HETEROGENEOUS,
    "current_instance_group",
    "instance_group_name",
    "algo-1",
    "algo-9",
    "dnn_group",
    "homogeneousCluster",
)
descriptions = mutated(st.sampled_from([HETEROGENEOUS, HOMOGENEOUS]), WORDS)

JOB = {
    "job_id": "job-1",
    "mode": "heterogeneous",
    "rank": 1,
    "size": 4,
    "local_rank": 1,
    "local_size": 2,
    "dispatcher": "algo-1:6000",
    "workers": 3,
    "data_hosts": ["algo-2"],
    "seed": 7,
    "host": "algo-1",
    "group": "dnn_group",
    "output_dir": "/opt/ml/output/data",
    "record_dir": None,
    "timeline_dir": None,
}
PORTS = {"control": 16000, "dispatcher": 6000, "workers": [6001, 6002]}
ADDRESSES = {"algo-1": "10.0.0.1", "algo-2": "algo-2.internal"}
RANKS = ("OMPI_COMM_WORLD_", "HOROVOD_")

CLUSTER = {
    "name": "demo",
    "groups": {
        "data_group": {"hosts": 2, "instance_type": "ml.c5.xlarge", "cpus": 0.2, "memory_mib": 512},
        "dnn_group": {"hosts": 1, "ranks": 2, "instance_type": "ml.p3.8xlarge"},
    },
    "channels": {"training": "digits/train"},
    "launcher": {"data_host_workers": 1, "chain": "rescale(); random_flip()"},
}
YAML = (
    *("*a", "&a [*a]", "&a {<<: *a}", "!!int ''", "!!float x", "!!bool x", "!!timestamp x", "!!python/object:os.sep x"),
    *("2024-02-31", "2024-01-01", "0b", "0o9", "1:2:3", ".inf", ".nan", "~", "=", "!!binary x"),
    *("<<: 1", "<<: [1]", "!!omap [a: 1]", "!!pairs [a]", "!!set {a}", "? [a]", "%YAML 9.9", "---", "...", "\t", "\0"),
)  # fmt: skip


def _sound(identity: Identity) -> None:
    hosts = {group.name: group.hosts for group in identity.cluster.groups}
    names = [name for each in hosts.values() for name in each]
    assert len(set(names)) == len(names)
    assert identity.current_host in hosts[identity.current_group]
    with contextlib.suppress(ClusterError):
        roles(identity)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host")


@fuzz(300, json_bytes(descriptions))
def test_any_resourceconfig_is_an_identity_or_a_cluster_error(folder: Path, content: bytes) -> None:
    path = folder / "input" / "config" / "resourceconfig.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    with contextlib.suppress(ClusterError):
        _sound(identify({"SAGEMAKER_BASE_DIR": str(folder)}))


def _variable(sound: str, documents: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    return st.just(sound) | json_text(documents) | texts


@fuzz(
    150,
    st.fixed_dictionaries(
        {},
        optional={
            "SM_RESOURCE_CONFIG": _variable(json.dumps(HETEROGENEOUS), descriptions),
            "SAGEMAKER_BASE_DIR": texts.filter(lambda text: "\0" not in text and "/" not in text),
        },
    ),
)
def test_any_sm_variables_are_an_identity_or_a_cluster_error(env: dict[str, str]) -> None:
    with contextlib.suppress(ClusterError):
        _sound(identify(env))


_rank_numbers = (
    st.sampled_from(["0", "1", "2", "4", " 3 ", "-1", "", "٣", "²", "9" * 11, "9" * 5000, "1_0", "0x1", "+1"]) | texts
)


@fuzz(
    250,
    st.fixed_dictionaries(
        {"TFHET_JOB": json_text(mutated(st.just(JOB), (*JOB, "local", "homogeneous", "a:99999", ":1"))) | texts},
        optional={
            "TFHET_PORTS": json_text(mutated(st.just(PORTS), tuple(PORTS))),
            "TFHET_ADDRESSES": json_text(mutated(st.just(ADDRESSES), ("algo-1", "localhost", "0.0.0.0", "::1"))),
            "SM_TRAINING_ENV": json_text(mutated(st.just({"job_name": "training-1"}))),
            "TFHET_SECRET": texts,
            "SM_HP_TFHET_SECRET": texts,
            **{
                source + name: _rank_numbers
                for source in RANKS
                for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
            },
        },
    ),
    st.integers(0, 3),
)
def test_any_variables_of_a_launcher_are_read_or_a_usage_error(env: dict[str, str], workers: int) -> None:
    with contextlib.suppress(ClusterError):
        job = JobContext.from_env(env)
        assert 0 <= job.rank < job.size
        assert JobContext.from_env(job.to_env()) == job
    with contextlib.suppress(UsageError):
        plane = {"dispatcher": PortRange(6000, is_shared=True), "workers": PortRange(6001, workers)}
        ports = Ports.from_env(env, plane=plane)
        assert len(ports.plane["workers"]) == workers
        assert all(1 <= port <= 65535 for port in ports.every)
    for host in ("algo-1", "algo-2"):
        with contextlib.suppress(UsageError):
            assert resolve(host, env).isprintable()
    with contextlib.suppress(ClusterError):
        rank = rank_of(env)
        assert rank is None or 0 <= rank.local_rank <= rank.rank < rank.size
    assert isinstance(job_name(env), str)
    with contextlib.suppress(UsageError):
        assert len(Secret.from_env(env, job_name(env), ["algo-1"]).key) == 32


TOLD: list[dict[str, Any]] = [
    {"type": "servinghosts", "hosts": ["algo-1", "algo-2"], "is_complete": True},
    {"type": "progress", "steps": 7, "examples": 896.0, "step_s": 1.5, "wait_s": None},
    {"type": "ready", "port": 6001, "facts": {"native": ["tone"]}},
    {"type": "registered", "workers": 2},
]


@fuzz(210, json_bytes(mutated(st.sampled_from(TOLD), tuple({name for each in TOLD for name in each}))))
def test_any_packet_of_a_channel_is_a_message_or_a_message_error(packet: bytes) -> None:
    for kinds in (rank.Report, rank.Order, server.Report):
        with contextlib.suppress(MessageError):
            assert isinstance(decode(packet, kinds), kinds)


def _yaml(document: Any, snippet: str, indent: int) -> str:
    text = json.dumps(document, indent=indent or None)
    return filled(text).replace('"@yaml@"', snippet)


cluster_texts = st.builds(
    _yaml,
    mutated(
        st.just(CLUSTER),
        (
            *CLUSTER,
            "hosts",
            "ranks",
            "instance_type",
            "cpus",
            "mbit_per_s",
            "@yaml@",
            "@yaml@",
            "@yaml@",
            "@yaml@",
            "<<",
        ),
    ),
    st.sampled_from(YAML) | texts,
    st.integers(0, 2),
)
block_texts = st.builds(
    lambda lines, odd, at: "\n".join((*lines[:at], odd, *lines[at:])),
    st.just((Path(__file__).parents[2] / "tfhet/simulate/presets/demo.yaml").read_text(encoding="utf-8").splitlines()),
    st.sampled_from([*YAML, "- " * 400, "? " * 400, "[" * 3000, "{a: " * 3000])
    | st.builds("{}: {}".format, st.sampled_from([*CLUSTER, "hosts", "<<"]), st.sampled_from(YAML) | texts),
    st.integers(0, 12),
)


@fuzz(100, spoilt(cluster_texts | block_texts) | st.binary(max_size=30))
def test_any_cluster_file_is_a_cluster_or_a_usage_error(folder: Path, content: bytes) -> None:
    path = folder / "some.yaml"
    path.write_bytes(content)
    with contextlib.suppress(UsageError):
        cluster = load(str(path))
        assert 1 <= sum(group.hosts for group in cluster.groups.values()) <= 100
        cluster.arguments()

"""Contract of every rule of the doctor: one case in which it reports what to do, and one in which it is silent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tfhet.doctor import SUBJECTS, Rule, Status, host
from tfhet.doctor.cluster import ClusterFacts
from tfhet.doctor.host import HostFacts
from tfhet.doctor.pipeline import PipelineFacts
from tfhet.doctor.reduction import ReductionFacts
from tfhet.doctor.script import ScriptFacts, parse
from tfhet.launch import LaunchSettings
from tfhet.profile.anatomy import Anatomy, GraphStep
from tfhet.simulate import ClusterFile
from tfhet.units import GIB, MIB

HOST = HostFacts(
    cpu="a CPU",
    cores=8,
    cores_usable=8,
    cpu_quota=None,
    numa_nodes=1,
    memory_bytes=32 * GIB,
    memory_free_bytes=16 * GIB,
    gpus=("V100",),
    gpus_seen={"TensorFlow": 1},
    open_files=65536,
    shm_bytes=2 * GIB,
    directory="/tmp",
    disk_free_bytes=100 * GIB,
    busy_ports=(),
    name="algo-1",
    addresses=("10.0.0.1",),
    proxies=(),
)
VERSIONS = {
    "tensorflow": "2.15.1",
    "keras": "2.15.0",
    "horovod": "0.28.1",
    "tensorflow-addons": "0.23.0",
    "numpy": "1.26.4",
    "protobuf": "4.25.9",
    "pyarrow": "25.0.1",
    "ray": "2.60.0",
}
FILES = """
groups:
  data_group: {hosts: 1, instance_type: ml.c5.xlarge, cpus: 1, memory_mib: 4096}
  dnn_group: {hosts: 1, ranks: 4, instance_type: ml.p3.8xlarge, cpus: 2}
channels: {training: data}
launcher: {data_host_workers: 2, dnn_host_workers: 1, reserve_cpus: 1}
"""
STEPS = (
    GraphStep("TensorSlice", "TensorSlice", elements=16),
    GraphStep("Interleave", "ParallelInterleave", elements=None),
    GraphStep("Shuffle", "Shuffle", buffer=100, elements=None),
    GraphStep("parse", "ParallelMap", frozenset({"DecodeRaw"}), 1, 3072, 3072, ("uint8",)),
    GraphStep("Cache", "Cache", frozenset(), 1, 3072, 3072, ("uint8",)),
    GraphStep("Batch", "Batch", frozenset(), 32, 3072, 3072, ("uint8",), elements=40),
    GraphStep("augment", "ParallelMap", frozenset({"RandomUniform"}), 32, 3072, 3072, ("uint8",), elements=40),
    GraphStep("Prefetch", "Prefetch", frozenset(), 32, 3072, 3072, ("uint8",), elements=40),
)
ANATOMY = Anatomy(False, STEPS, elements=40, is_endless=False, splits=16, graph_bytes=MIB, reads_files=True)
SCRIPT = """
import horovod.tensorflow.keras as hvd
import tensorflow as tf
import tfhet
hvd.init()
flip = tf.keras.layers.RandomFlip()
ds = tf.data.Dataset.range(9).shuffle(9).map(lambda x: flip(x)).repeat().batch(2)
ds = tfhet.distribute(ds, sharding='off', steps_per_epoch=3)
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))
model.fit(ds, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
if hvd.rank() == 0:
    model.save("model")
"""


def cluster(old: str = "", new: str = "", **facts: Any) -> ClusterFacts:
    """The cluster above with another piece of text, and other facts about it."""
    assert old in FILES
    found = ClusterFile.parse(FILES.replace(old, new) if old else FILES, "cluster.yaml")
    made: dict[str, Any] = {
        "cluster": found,
        "settings": LaunchSettings.parse(found.arguments())[0],
        "refused": "",
        "types": {group.instance_type: KNOWN[group.instance_type] for group in found.groups.values()},
        "unknown_types": {},
        "mistyped": {},
        "files": {"training": 12},
        "cpus": 4,
        "memory_bytes": 32 * GIB,
    }
    return ClusterFacts(**{**made, **facts})


def pipeline(**changed: Any) -> PipelineFacts:
    return PipelineFacts(replace(ANATOMY, **changed), workers=4, memory_bytes=8 * GIB)


def steps(**changed: Any) -> PipelineFacts:
    """With another step of a kind: `Shuffle=GraphStep(...)`."""
    return pipeline(steps=tuple(changed.get(step.kind, step) for step in STEPS))


MULTI_WORKER = "s = tf.distribute.MultiWorkerMirroredStrategy()\nmodel.compile()\nmodel.fit(tfhet.distribute(ds))\n"


def script(old: str, new: str = "") -> ScriptFacts:
    assert old in SCRIPT
    return parse(SCRIPT.replace(old, new), "train.py")


def hosts(**changed: Any) -> HostFacts:
    return replace(HOST, **changed)


def versions(**changed: str) -> Mapping[str, str]:
    return {**VERSIONS, **{name.replace("_", "-"): version for name, version in changed.items()}}


def _known() -> dict[str, Any]:
    from tfhet.catalogue import default

    return {name: default().instance(name) for name in ("ml.c5.xlarge", "ml.p3.8xlarge")}


KNOWN = _known()
FLOATS = GraphStep("scale", "ParallelMap", frozenset(), 32, 12288, 3072, ("float32",), elements=40)
SOUND = {
    "machine": HOST,
    "versions": VERSIONS,
    "cluster": cluster(),
    "pipeline": pipeline(),
    "script": parse(SCRIPT, "train.py"),
    "gradients": ReductionFacts(parse(SCRIPT, "train.py"), None, ranks=4),
}
"""Facts at which nothing of a subject is to be said."""

SPEAKS: dict[str, dict[str, Any]] = {
    "machine": {
        "CPUs": hosts(cores_usable=2),
        "CPU quota": hosts(cpu_quota=2.5),
        "NUMA": hosts(numa_nodes=2),
        "memory": hosts(memory_bytes=2 * GIB),
        "free memory": hosts(memory_free_bytes=GIB),
        "GPUs": hosts(gpus_seen={"TensorFlow": 0}),
        "open files": hosts(open_files=1024),
        "/dev/shm": hosts(shm_bytes=64 * MIB),
        "disk": hosts(disk_free_bytes=GIB),
        "ports": hosts(busy_ports=("port 6000 at 0.0.0.0 is in use by another process",)),
        "host name": hosts(addresses=("127.0.1.1",)),
        "proxies": hosts(proxies=("https_proxy",)),
    },
    "versions": {
        "TensorFlow and Keras": versions(keras="3.3.3"),
        "TensorFlow and Addons": versions(tensorflow="2.16.1"),
        "TensorFlow and NumPy": versions(numpy="2.0.1"),
        "TensorFlow and protobuf": versions(protobuf="5.28.3"),
        "PyArrow and NumPy": versions(pyarrow="26.0.1"),
        "Ray": versions(ray="2.70.1"),
        "one TensorFlow": versions(tensorflow_cpu="2.15.1"),
    },
    "cluster": {
        "launcher arguments": cluster(refused="--lease_s must be positive, not 0"),
        "mistyped arguments": cluster(mistyped={"--data_host_worker": "--data_host_workers"}),
        "groups": cluster("dnn_group:", "trainers:"),
        "strategy": cluster("launcher: {", "launcher: {strategy: mirrored, "),
        "workers": cluster("data_host_workers: 2", "data_host_workers: 0"),
        "ports of a host": cluster("reserve_cpus: 1", "dispatcher_port: 6002"),
        "instance types": cluster(unknown_types={"ml.p9.large": "unknown instance type 'ml.p9.large'"}),
        "ranks and GPUs": cluster("ranks: 4", "ranks: 8"),
        "CPU quotas": cluster("cpus: 1", "cpus: 7"),
        "memory of the hosts": cluster("4096", "1024"),
        "channels": cluster(files={"training": None}),
        "files and workers": cluster(files={"training": 2}),
    },
    "pipeline": {
        "building it": PipelineFacts(None, "ValueError: no such file"),
        "Python code": pipeline(python_functions=("tf.py_function",)),
        "variables and tables": pipeline(resources=("lookup table",)),
        "elements": pipeline(no_tensors=("DatasetSpec",)),
        "size of the graph": pipeline(graph_bytes=3 * GIB),
        "files and workers": pipeline(splits=3),
        "requests": pipeline(reads_files=False, splits=50_000),
        "sharding": pipeline(refusal="the data set has take; split it by tfhet.split"),
        "own shards": pipeline(steps=(*STEPS, GraphStep("Shard", "Shard"))),
        "end of an epoch": pipeline(elements=None, is_endless=True),
        "bytes on the wire": pipeline(steps=(*STEPS, FLOATS)),
        "batches": pipeline(steps=STEPS[:5]),
        "prefetch": pipeline(steps=STEPS[:-1]),
        "parallel maps": steps(ParallelMap=GraphStep("augment", "Map", frozenset({"DecodeRaw"}))),
        "cache": steps(ParallelMap=GraphStep("augment", "ParallelMap", frozenset({"StatelessRandomUniformV2"}))),
        "shuffle buffer": pipeline(steps=(STEPS[5], GraphStep("Shuffle", "Shuffle", examples=32, buffer=1000))),
    },
    "script": {
        "readable": parse("def train(:", "train.py"),
        "tfhet.distribute": script("tfhet.distribute(", "str("),
        "hvd.init": script("hvd.init()"),
        "gradients": script("hvd.DistributedOptimizer", "str"),
        "first weights": script("hvd.callbacks.BroadcastGlobalVariablesCallback(0)"),
        "import": script("tfhet.distribute(ds", "tfhet.batches(ds"),
        "tf.distribute": script("hvd.init()", "hvd.init(); tf.distribute.MirroredStrategy()"),
        "Keras 3 and several workers": parse(MULTI_WORKER, "train.py", is_keras_3=True),
        "own shards": script(".batch(2)", ".batch(2).shard(hvd.size(), hvd.rank())"),
        "steps_per_epoch": script(", steps_per_epoch=3"),
        "saving": script("if hvd.rank() == 0:", "if True:"),
        "Python in the data set": script("lambda x: flip(x)", "lambda x: tf.py_function(abs, [x], tf.int64)"),
        "sampler": parse("init_process_group()\nDataLoader(data, shuffle=True)\n", "train.py"),
        "Keras layers in map": script("lambda x: flip(x)", "lambda x: tf.keras.layers.RandomFlip()(x)"),
    },
    "gradients": {
        "Horovod and Keras 3": ReductionFacts(parse(SCRIPT, "train.py"), "3.15.1"),
        "several ranks of TensorFlow": ReductionFacts(script("hvd.DistributedOptimizer", "str"), None, ranks=2),
        "several ranks of PyTorch": ReductionFacts(parse("import torch\nloss.backward()", "train.py"), None, ranks=2),
    },
}
RULES = [(subject.section, rule) for subject in SUBJECTS for rule in subject.rules]


@pytest.mark.parametrize(("section", "rule"), RULES, ids=[f"{section}: {rule.name}" for section, rule in RULES])
def test_rule_answers_only_in_its_case(section: str, rule: Rule[Any]):
    assert rule.name in SPEAKS[section], "add a case for the new rule"
    said = rule.look(SPEAKS[section][rule.name])
    assert said is not None and said.status in (Status.LIMITED, Status.WRONG)
    assert said.found and said.what_to_do
    silent = rule.look(SOUND[section])
    assert silent is None or (silent.status is Status.OK and silent.found and not silent.what_to_do)


def test_cases_and_rules_match():
    names = [(section, rule.name) for section, rule in RULES]
    assert len(set(names)) == len(names)
    assert {(section, name) for section, cases in SPEAKS.items() for name in cases} == set(names)


def test_rules_have_reasons_and_valid_issues():
    for _, rule in RULES:
        assert rule.why and not rule.why.endswith(".")
        assert not rule.issue or re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", rule.issue), rule.issue


def test_large_shuffle_buffer_is_reported():
    much = GraphStep("Shuffle", "Shuffle", frozenset(), 1, 150_528, 150_528, ("uint8",), buffer=20_000)
    said = {rule.name: rule for _, rule in RULES}["shuffle buffer"].look(pipeline(steps=(STEPS[3], much)))
    assert said is not None and said.status is Status.LIMITED and "20000" in said.found


def test_declared_pipeline_skips_rules_of_datasets():
    facts = pipeline(is_declared=True, steps=(*STEPS[:4], FLOATS))
    told = {rule.name for section, rule in RULES if section == "pipeline" and rule.look(facts) is not None}
    assert "files and workers" in told and not told & {"prefetch", "batches", "parallel maps", "cache", "sharding"}
    assert {rule.name: rule for _, rule in RULES}["bytes on the wire"].look(facts).status is Status.OK


@pytest.mark.parametrize(
    ("name", "changes", "status"),
    [
        ("TensorFlow and Keras", {"tensorflow": "2.16.0rc0", "keras": "3.3.3"}, Status.OK),
        ("TensorFlow and Keras", {"tensorflow": "2.21.0"}, Status.LIMITED),
        ("TensorFlow and protobuf", {"protobuf": "3.20.3"}, Status.LIMITED),
        ("TensorFlow and NumPy", {"tensorflow": "2.21.0", "numpy": "2.4.0"}, Status.OK),
        ("TensorFlow and NumPy", {"tensorflow": "2.15.1+nv24.1", "numpy": "2.0.0"}, Status.WRONG),
    ],
)
def test_versions_are_compared_as_numbers(name, changes, status):
    (rule,) = (rule for section, rule in RULES if section == "versions" and rule.name == name)
    assert rule.look({**VERSIONS, **changes}).status is status


def test_gpus_are_optional():
    assert host.gpus(hosts(gpus=(), gpus_seen={"TensorFlow": 0})).found == "none"
    either = host.gpus(hosts(gpus=("H100",), gpus_seen={"TensorFlow": 0, "PyTorch": 1}))
    assert either.status is Status.OK and either.found == "1; TensorFlow sees 0 and PyTorch sees 1: H100"


def test_data_hosts_decide_between_wrong_and_limited():
    said = {rule.name: rule for section, rule in RULES if section == "pipeline"}
    facts = pipeline(python_functions=("from_generator",), refusal="the data set has take; split it by tfhet.split")
    for name in ("Python code", "sharding"):
        assert said[name].look(facts).status is Status.WRONG
        assert said[name].look(replace(facts, workers=0)).status is Status.LIMITED

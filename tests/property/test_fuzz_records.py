"""Whatever a record, a summary, an events file or a sidecar holds, it is read, or refused by the documented error."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import strategies as st
from rubbish import anything, fuzz, json_bytes, mutated, texts

from tfhet.errors import DataError, UsageError
from tfhet.events import Event
from tfhet.record import Figure, Record, RunFolder, RunSummary, Spread
from tfhet.source import Encoded, Fixed, Raw, Scalar, Sidecar

SUMMARY = RunSummary(
    name="demo",
    job_id="demo-1",
    mode="heterogeneous",
    started=1.7e9,
    duration_s=12.5,
    cluster={"dnn_group": {"hosts": ["algo-1"], "instance_type": None, "role": "dnn", "ranks_per_host": 1}},
    exit_codes={"algo-1": 0, "algo-2": None},
    exit_code=0,
    steps=10,
    batch_size=32,
    ranks=1,
    step_ms=Spread.of([1.0, 2.0, 3.0]),
    wait_pct=1.5,
    epochs=({"epoch": 0, "seen": 320, "expected": 320, "missing": 0, "repeated": 0, "loss": math.nan},),
    stages_where={"rescale()": "data_group"},
    metrics={"loss": math.inf},
).to_json()
RECORD = Record(
    "stages.demo", {"a.b": Figure.of([1.0, 2.0], unit="ms"), "c": Figure.single(1, unit="x")}, {"cases": [1, {"n": 2}]}
).to_json()
SIDECAR = {
    "schema": 1,
    "features": {
        "image": Raw((32, 32, 3)).as_json(),
        "label": Scalar().as_json(),
        "box": Fixed((4,)).as_json(),
        "photo": Encoded(32, 32).as_json(),
    },
    "files": {"a-00000.tfrecord": 12, "a-00001.tfrecord": 11},
    "classes": ["cat", "dog"],
    "details": {"seed": 0, "shards": 2},
}
KINDS = ("raw", "scalar", "fixed", "encoded", "native", "string", "float16", "bool", "resource", "variant", "qint8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@fuzz(150, json_bytes(mutated(st.just(SUMMARY), (*SUMMARY, "NaN", "Infinity", "samples", "local"))))
def test_any_summary_is_read_or_refused(folder: Path, content: bytes) -> None:
    run = RunFolder(folder)
    run.summary_path.write_bytes(content)
    with contextlib.suppress(UsageError, DataError):
        summary = run.read_summary()
        run.write_summary(summary)
        assert json.dumps(run.read_summary().to_json()) == json.dumps(summary.to_json())


@fuzz(150, json_bytes(mutated(st.just(RECORD), (*RECORD, "value", "samples", "n", "NaN", "-Infinity"))))
def test_any_benchmark_record_is_read_or_refused(folder: Path, content: bytes) -> None:
    path = folder / "record.json"
    path.write_bytes(content)
    with contextlib.suppress(UsageError, DataError):
        record = Record.read(path)
        record.write(path)
        written = path.read_bytes()  # with rounded numbers
        Record.read(path).write(path)
        assert path.read_bytes() == written


def test_any_events_file_gives_the_objects_in_it(folder: Path) -> None:
    run = RunFolder(folder)
    event = Event("worker.started", 1.5, {"host": "algo-1", "port": 6001})

    @fuzz(50, json_bytes(mutated(st.just(event.as_json()))), st.dictionaries(texts, anything, max_size=2))
    def read(content: bytes, odd: dict[str, Any]) -> None:
        run.events_path.write_bytes(content + b"\n")
        run.write_event(event)
        run.write_event(Event("odd", 0.0, odd))
        events = list(run.events())
        assert event.as_json() in events
        assert "odd" in [found.get("event") for found in events] or "event" in odd

    read()


@fuzz(140, json_bytes(mutated(st.just(SIDECAR), (*SIDECAR, *KINDS, "kind", "shape", "dtype", "height"))))
def test_any_sidecar_is_read_or_a_usage_error(folder: Path, content: bytes) -> None:
    (folder / Sidecar.NAME).write_bytes(content)
    with contextlib.suppress(UsageError):
        sidecar = Sidecar.read(folder)
        assert sidecar is not None
        assert all(isinstance(feature.spec.tensor, tf.TensorSpec) for feature in sidecar.features.values())
        for feature in sidecar.features.values():
            feature.stored()
        assert all(isinstance(count, int) and count >= 0 for count in sidecar.files.values())
        assert all(isinstance(name, str) for name in sidecar.classes)
        if sidecar.details == SIDECAR["details"]:
            sidecar.write(folder)
            assert Sidecar.read(folder) == sidecar

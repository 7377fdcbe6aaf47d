"""Fixtures of the differential test: the files, what is read alone, and one job per cluster."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults.job import run_job

import tfhet
from differential.judge import Shape
from differential.reading import Reading
from differential.row import ROLES, Row
from tfhet.planes.feed import Shard
from tfhet.simulate import ClusterFile, GroupFile

WITNESS = "tests/differential/witness.py"
Readings = dict[str, list[Reading]]
"""The readings of all ranks, by role."""


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from differential.files import make_files

    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


@pytest.fixture(scope="session")
def alone(files: Path) -> Callable[[Row], dict[str, Reading]]:
    """Reads a pass of a row in this process, without tfhet."""
    import tensorflow as tf

    @functools.cache
    def read(row: Row) -> dict[str, Reading]:
        found = {}
        for role, made in row.data(files).items():
            data = _plain(made, files)
            found[role] = Reading(spec=str(data.element_spec), cardinality=int(data.cardinality()))
            endless = found[role].cardinality == tf.data.INFINITE_CARDINALITY
            found[role].add(itertools.islice(data, row.steps) if endless else data, row)
            if isinstance(made, tfhet.Pipeline):
                found[role].cardinality = found[role].batches[0]
        return found

    return read


@pytest.fixture(scope="session")
def read_by_job(
    request: pytest.FixtureRequest, files: Path, alone: Callable[[Row], dict[str, Reading]], tmp_path_factory
) -> Callable[[Shape, Row], Readings]:
    """What the ranks of a job read. One job per cluster and data plane reads all rows that this session tests."""

    @functools.cache
    def notes(shape: Shape, plane: str) -> tuple[Path, list[str]]:
        chosen = {item.callspec.params["row"] for item in request.session.items if _is_of(item, shape)}
        rows = {row.name: row for row in chosen if row.plane == plane}
        batches = {
            name: {role: one.batches[0] for role, one in alone(row).items()} for name, row in sorted(rows.items())
        }
        place = tmp_path_factory.mktemp("d")
        (place / "notes").mkdir()
        order = {"files": str(files), "notes": str(place / "notes"), "rows": batches}
        ranks = GroupFile(hosts=1, ranks=shape.ranks)
        groups = (
            {"data_group": GroupFile(hosts=shape.hosts), "dnn_group": ranks} if shape.hosts else {"homogeneous": ranks}
        )
        job = run_job(
            ClusterFile("differential", groups, {}),
            [*(f"--data_plane {plane}".split() if plane else ()), "--train_script", WITNESS],
            place,
            variables={"DIFFERENTIAL": json.dumps(order)},
            max_run_s=600.0,
        )
        cause = [f"exit code {job.summary.exit_code}: {job.summary.cause}"] if job.summary.exit_code else []
        return place / "notes", [*job.left, *cause]

    def read(shape: Shape, row: Row) -> Readings:
        folder, wrong = notes(shape, row.plane)
        assert wrong == []
        found = [json.loads((folder / f"{row.name}.{rank}.json").read_text()) for rank in range(shape.ranks)]
        return {role: [Reading(**one[role]) for one in found] for role in ROLES}

    return read


def _plain(made: Any, files: Path) -> Any:
    """The data set of what a row passes to `distribute`."""
    if isinstance(made, tfhet.Pipeline):
        return made.dataset().map(lambda element: (element["image"], element["label"]))
    return made(Shard(0, 1), str(files)) if callable(made) else made


def _is_of(item: pytest.Item, shape: Shape) -> bool:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return "row" in parameters and parameters["shape"] == shape

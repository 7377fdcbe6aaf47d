"""record/record.py: what a benchmark leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_clock import FakeClock

from tfhet.errors import DataError, UsageError
from tfhet.record import Figure, Record


def record() -> Record:
    figures = {"stages.x.vs_example": Figure.ratio([4.0, 4.2], [0.1, 0.1], against="the example as written")}
    return Record.of("stages.x", figures, details={"samples": {"a": [1.0]}}, command=["a", "b"], clock=FakeClock(60.0))


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    path = record().write(tmp_path / "results" / "stages.json")
    assert Record.read(path) == record()


def test_the_file_has_all_fields(tmp_path: Path) -> None:
    held = json.loads(record().write(tmp_path / "r.json").read_text())
    assert list(held) == [
        *("schema", "name", "created", "machine", "versions", "code", "conditions", "command", "figures", "details")
    ]
    assert held["schema"] == 1
    assert held["created"] == "1970-01-01T00:01:00+00:00"
    assert held["figures"]["stages.x.vs_example"]["against"] == "the example as written"
    assert held["machine"]["cores"] >= 1 and "numpy" in held["versions"]


def test_floats_have_five_digits_and_figures_one_line(tmp_path: Path) -> None:
    made = Record.of("x", {"x.s": Figure.of([1 / 3, 200_000 / 3, 3.0], unit="s")}, details={"a": [1, [2 / 3]], "b": {}})
    text = made.write(tmp_path / "r.json").read_text()
    found = Record.from_json(json.loads(text))
    assert found.figures["x.s"].samples == (0.33333, 66667.0, 3.0)
    assert found.details == {"a": [1, [0.66667]], "b": {}}
    assert sum('"x.s"' in line and '"samples"' in line for line in text.splitlines()) == 1


def test_another_schema_is_refused_with_the_path(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**record().to_json(), "schema": 99}))
    with pytest.raises(UsageError, match=r"r\.json has schema 99; this tfhet reads schema 1"):
        Record.read(path)


@pytest.mark.parametrize("broken", [{"schema": 1}, {"schema": 1, "name": "x", "figures": []}])
def test_a_record_without_its_table_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(DataError, match="`figures`"):
        Record.from_json(broken)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"command": True}, "`command` is True, not Sequence"),
        ({"details": [1]}, "`details` is list, not Mapping"),
        ({"created": 5}, "`created` is 5, not str"),
        ({"figures": {"a": {**Figure.single(1.0, unit="s").to_json(), "low": 10**400}}}, "figures 'a': `low`"),
        ({"figures": {"a": {**Figure.single(1.0, unit="s").to_json(), "n": float("inf")}}}, "figures 'a': `n` is inf"),
    ],
)
def test_a_part_of_the_wrong_kind_is_refused(broken: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        Record.from_json({**record().to_json(), **broken})

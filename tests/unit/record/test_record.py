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
    assert record().created == "1970-01-01T00:01:00+00:00" and "numpy" in record().versions


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


ONE = vars(Figure.single(1.0, unit="s"))


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        ({"name": None}, "`name`"),
        ({"figures": None}, "`figures`"),
        ({"figures": []}, "`figures`"),
        ({"command": True}, "`command` is True"),
        ({"details": [1]}, "`details`"),
        ({"created": 5}, "`created` is 5"),
        ({"figures": {"a": {**ONE, "low": 10**400}}}, ".low`"),
        ({"figures": {"a": {**ONE, "n": float("inf")}}}, ".n`"),
    ],
)
def test_a_wrong_field_is_named(broken: dict[str, object], field: str) -> None:
    with pytest.raises(DataError, match=field):
        Record.from_json({**record().to_json(), **broken})

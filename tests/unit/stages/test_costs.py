"""stages/costs.py: the cheapest backend for the images at hand, by the table of the package or of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

from tfhet import native
from tfhet.errors import DataError, UsageError
from tfhet.record import document
from tfhet.stages import costs
from tfhet.stages.costs import Cost, cheapest, compiled, forced

BOTH = ("native", "plain")
LINES = (
    Cost("blur", "native", "uint8", 1024, 3, 9.0),
    Cost("blur", "plain", "uint8", 1024, 3, 5.0),
    Cost("blur", "native", "uint8", 50176, 3, 100.0),
    Cost("blur", "plain", "uint8", 50176, 3, 900.0),
    Cost("blur", "native", "uint8", 1024, 1, 1.0),
    Cost("blur", "plain", "uint8", 1024, 1, 2.0),
    Cost("line", "plain", "uint8", 1024, 3, 0.1),
)


@pytest.fixture(autouse=True)
def own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package's table is LINES; this machine has none yet."""
    committed = tmp_path / "committed.json"
    costs.write(LINES, committed)
    monkeypatch.setattr(costs, "COMMITTED", committed)
    monkeypatch.setattr(costs, "user_path", lambda: tmp_path / "user.json")
    costs.table.cache_clear()
    yield tmp_path / "user.json"
    costs.table.cache_clear()


def images(edge: int | None, channels: int = 3, dtype: tf.DType = tf.uint8) -> tf.Tensor:
    return tf.TensorSpec([None, edge, edge, channels], dtype)


def test_the_nearest_size_with_that_many_channels_decides() -> None:
    assert cheapest("blur", images(32), BOTH) == "plain"
    assert cheapest("blur", images(64), BOTH) == "plain"
    assert cheapest("blur", images(200), BOTH) == "native"
    assert cheapest("blur", images(32, channels=1), BOTH) == "native"


@pytest.mark.parametrize(
    ("operation", "given"),
    [
        ("blur", images(None)),
        ("blur", images(32, dtype=tf.float32)),
        ("unheard of", images(32)),
        ("line", images(32)),
    ],
    ids=["size unknown", "dtype not measured", "operation not measured", "first not measured"],
)
def test_what_the_table_cannot_tell_is_the_first(operation: str, given: tf.TensorSpec) -> None:
    assert cheapest(operation, given, BOTH) == "native"


def test_this_machines_lines_replace_those_of_their_operation_only(own_table: Path) -> None:
    costs.write([Cost("blur", "native", "uint8", 1024, 3, 1.0), Cost("blur", "plain", "uint8", 1024, 3, 2.0)])
    assert cheapest("blur", images(32), BOTH) == "native"
    assert [cost.operation for cost in costs.table()] == ["blur", "blur", "line"]
    assert costs.read(own_table)[0] == Cost("blur", "native", "uint8", 1024, 3, 1.0)


def test_a_table_of_another_processor_and_a_broken_one_are_left_out(own_table: Path) -> None:
    costs.write([Cost("blur", "native", "uint8", 1024, 3, 1.0)])
    document.write(own_table, {**document.read(own_table, costs.KIND), "cpu": "another"})
    costs.table.cache_clear()
    assert costs.table() == costs.read(costs.COMMITTED)
    own_table.write_text("{")
    costs.table.cache_clear()
    assert costs.table() == costs.read(costs.COMMITTED)


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    document.write(tmp_path / "a.json", {"schema": 9, "costs": []})
    with pytest.raises(UsageError, match="schema 9"):
        costs.read(tmp_path / "a.json")
    document.write(tmp_path / "b.json", {"schema": 1, "costs": [{"operation": "blur"}]})
    with pytest.raises(DataError, match="not a cost table"):
        costs.read(tmp_path / "b.json")


def test_a_backend_can_be_forced_for_a_while() -> None:
    with forced("blur", "native") as chosen:
        assert cheapest("blur", images(32), BOTH) == "native"
        assert cheapest("line", images(32), ("plain",)) == "plain"
        assert dict(chosen) == {"blur": "native", "line": "plain"}
    assert cheapest("blur", images(32), BOTH) == "plain"


def test_native_is_no_candidate_where_it_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "available", lambda name: False)
    assert cheapest("unheard of", images(32), BOTH, library="filters") == "plain"
    with pytest.raises(UsageError, match="no candidate"):
        cheapest("unheard of", images(32), ("native",), library="filters")


def test_compiled_ops_are_given_unless_plain_ones_are_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "ops", lambda name: f"ops of {name}")
    assert compiled("blur", "filters", images(200)) == "ops of filters"
    assert compiled("blur", "filters", images(32)) is None
    monkeypatch.setattr(native, "ops", lambda name: None)
    assert compiled("blur", "filters", images(200)) is None


def test_the_packages_own_table_can_be_read_and_names_known_backends_only() -> None:
    for cost in costs.read(Path(costs.__file__).with_suffix(".json")):
        assert cost.backend in costs.BACKENDS[cost.operation] and cost.us > 0.0

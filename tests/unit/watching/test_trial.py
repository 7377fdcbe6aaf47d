"""What `tfhet try` concludes from the steps of its loaders, and what it does to loaders and datasets."""

from types import SimpleNamespace

import numpy as np
import pytest

from tfhet.watching.inside.trial.datasets import Forms, are_apart, find_transform, with_transform
from tfhet.watching.trial import TrialResult, lines


def result(*rounds: tuple[float, ...], error: str = "", wait: float = 0.5, **reasons: str) -> TrialResult:
    """rounds: milliseconds of a step in each round, by loader."""
    variants, slices = [], []
    for at, each in enumerate(rounds):
        variants.append({"name": f"L{at}", "workers": at, "changes": {}, "why_not": reasons.get(f"L{at}", "")})
        for step_ms in each:
            total_s = 20 * step_ms / 1e3
            slices.append({"variant": at, "steps": 20, "examples": 80, "total_s": total_s, "wait_s": wait * total_s})
    content = {"variants": variants, "slices": slices, "facts": {"places": {}}, "remarks": [], "comparison": {}}
    return TrialResult.of({**content, "error": error})


def best(*rounds: tuple[float, ...], **reasons: str) -> str | None:
    found = result(*rounds, **reasons).best
    return found and found.name


def test_fastest_loader_is_the_best():
    assert best((100, 110), (80, 90), (50, 60)) == "L2"


def test_smaller_change_wins_among_equals():
    assert best((100, 100), (50.5, 51.5), (50, 50)) == "L1"


def test_slower_round_than_the_script_is_no_gain():
    assert best((60, 100), (50, 61)) is None
    assert best((60, 100), (50, 59)) == "L1"


def test_failed_loader_is_not_proposed():
    assert best((100, 100), (10, 10), L1="ValueError: no") is None


def test_script_that_hardly_waits_is_named():
    found = result((100.0,), (), wait=0.01)
    assert found.keeps_up
    assert found.best is None
    assert "waits for its data in 1.0 % of its steps" in "\n".join(lines(found))


def test_incomplete_comparison_proposes_nothing():
    found = result((100.0,), (), error="the script ended")
    assert not found.keeps_up
    assert found.best is None


def test_few_steps_are_no_measurement():
    found = result((100, 100), (50, 50))
    short = [{"variant": 1, "steps": 9, "examples": 9, "total_s": 0.1, "wait_s": 0.0}]
    measured = found.loaders[1].of({"name": "L1", "workers": 0, "changes": {}, "why_not": ""}, short)
    assert "fewer than 10 steps" in measured.why_not


@pytest.mark.parametrize(
    ("own", "other", "differs"),
    [
        ([np.zeros((4, 3), np.float32)], np.zeros((2, 3), np.float32), False),
        ([np.zeros((4, 3), np.float32)], np.zeros((4, 3), np.uint8), True),
        ([np.zeros((4, 3), np.float32)], np.zeros((4, 5), np.float32), True),
        ([np.zeros((4, 3)), np.zeros((4, 5))], np.zeros((4, 9)), False),
        ([np.zeros((4, 3)), np.zeros((4, 5))], np.zeros((4, 9, 1)), True),
        ([{"x": np.zeros((4, 3)), "y": [1, 2]}], {"x": np.zeros((1, 3)), "y": [3]}, False),
    ],
)
def test_batches_of_another_form_are_found(own, other, differs):
    forms = Forms()
    assert [forms.difference(each, is_own=True) for each in own] == [""] * len(own)
    assert bool(forms.difference(other, is_own=False)) is differs


@pytest.mark.parametrize(
    ("means", "stds", "apart"),
    [((0.4, 0.42), (0.2, 0.21), False), ((0.4, 102.0), (0.2, 51.0), True), ((0.0, 0.0), (1.0, 0.4), True)],
)
def test_other_values_are_no_translation(means, stds, apart):
    assert bool(are_apart({"mean": means, "std": stds})) is apart


class Resize:
    """Stands for a transform of torchvision."""


Resize.__module__ = "torchvision.transforms.transforms"


def test_transform_is_replaced_in_a_copy():
    old, new = Resize(), object()
    inner = SimpleNamespace(transform=old, target=None, files=["a"])
    outer = SimpleNamespace(datasets=[SimpleNamespace(dataset=inner), SimpleNamespace(transform=None)])
    found = find_transform(outer)
    assert found is not None
    assert found.transform is old
    assert found.dataset is inner
    made = with_transform(outer, old, new)
    assert made.datasets[0].dataset.transform is new
    assert made.datasets[0].dataset.files is inner.files
    assert inner.transform is old
    assert find_transform(SimpleNamespace(transform=print)) is None

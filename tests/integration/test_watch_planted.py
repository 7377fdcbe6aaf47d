"""Scripts with a planted bottleneck: `tfhet watch` names it, and its first advice is the change that helps."""

from __future__ import annotations

import random
from importlib.util import find_spec

import pytest
from planted.cases import draw

SEED, COUNT = 3, 3
pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(800)]
pytest.importorskip("torch")


def test_planted_bottlenecks_are_named(tmp_path):
    missing = {
        kind for kind, package in (("OpenCV threads", "cv2"), ("slow disk", "torchvision")) if not find_spec(package)
    }
    cases = [case for case in draw(SEED, 1) if case.kind not in missing]
    found = {}
    for case in random.Random(SEED).sample(cases, COUNT):
        folder = tmp_path / case.kind
        folder.mkdir()
        found[case.kind] = case.expected.misses(case.run(folder))
    assert sum(not misses for misses in found.values()) >= COUNT - 1, found  # a busy machine adds waits of its own

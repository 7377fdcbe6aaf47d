from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from faults.judge import Run, Verdict, content_of, judge
from faults.scripts.witness_train import Witness, digests
from tfhet.source import Raw, Scalar, write_tfrecords

SOURCE = Counter("aabcd")  # an example may be there twice


def run(*steps: tuple[int, str], first: int = 0) -> Run:
    return Run(tuple(Counter((epoch, digest) for digest in content) for epoch, content in steps), first)


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        ([run((0, "ab"), (0, "cda"), (1, "dcbaa"))], []),
        ([run((0, "ab"), (0, "cd"), (1, "dcbaa"))], ["epoch 0: 1 examples missing"]),
        ([run((0, "abcdaa"), (1, "dcbaa"))], ["epoch 0: 1 examples repeated"]),
        ([run((0, "abcdx"), (1, "dcbaa"))], ["epoch 0: 1 examples missing", "epoch 0: 1 examples not of the source"]),
        ([run((0, "abcdaxx"), (1, "dcbaa"))], ["epoch 0: 2 examples not of the source"]),
        ([run((0, "abcda"))], ["epoch 1: 5 examples missing"]),
        ([run((0, "abcda"), (1, "abcda"), (2, "b"))], []),  # the third epoch is not complete
        ([run((0, "abcda"), (1, "abcda"), (2, "bb"))], ["epoch 2: 1 examples repeated"]),
        ([run((0, "ab"), (0, "cd")), run((0, "a"), (1, "dcbaa"), first=2)], []),
        # The second step of the first run came after its checkpoint, so its examples have to come again.
        ([run((0, "ab"), (0, "cd")), run((0, "acd"), (1, "dcbaa"), first=1)], []),
        ([run((0, "ab"), (0, "cd")), run((0, "a"), (1, "dcbaa"), first=1)], ["epoch 0: 2 examples missing"]),
        # Steps that count, and examples that the next run sees again.
        ([run((0, "ab"), (0, "cd")), run((0, "abcda"), (1, "dcbaa"), first=2)], ["epoch 0: 4 examples repeated"]),
        (
            [run((0, "ab")), run((0, "cda"), (1, "dcbaa"), first=2)],
            ["run 1 took the steps 0 to 1, and the next begins at 2"],
        ),
    ],
)
def test_violations_are_found(runs, found):
    assert judge(runs, SOURCE, range(2)).words == tuple(found)


class Inner:
    """Reader and accelerator of a rank that is given two batches."""

    def __init__(self, *batches: tuple[np.ndarray, np.ndarray]):
        self.batches, self.failure, self.stepped = batches, "none", 0

    def epoch(self, epoch: int, rest: object = None, part: int = 0):
        yield from self.batches

    def singly(self, epoch: int, ids: object):
        yield from self.batches[:1]

    def step(self, batch: object, stop: bool = False) -> str:
        self.stepped += 1
        return "sums"


def test_notes_of_the_witness_reach_the_judge(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (5, 4, 4, 3), np.uint8), np.arange(5)
    channel = write_tfrecords(
        tmp_path / "channel",
        ({"image": image, "label": label} for image, label in zip(images, labels, strict=True)),
        2,
        {"image": Raw((4, 4, 3)), "label": Scalar()},
    )
    expected = content_of(channel)
    assert sorted(expected) == sorted(digests(images, labels))
    assert content_of(channel, [(0, 0)]).total() == 4
    assert digests(images.astype(np.float32) / 255, labels) == digests(images, labels)
    inner = Inner((images[:2], labels[:2]), (images[2:], labels[2:]))
    logs = tmp_path / "run" / "hosts" / "algo-1" / "output" / "data" / "witness"
    witness = Witness(logs / "0.jsonl", inner, inner)
    for epoch in range(2):
        for delivery in witness.reader.epoch(epoch):
            assert witness.accelerator.step(delivery) == "sums"
        assert witness.accelerator.step(None) == "sums"  # a rank without a batch
    witness.reader.failure = "some"
    assert (inner.failure, inner.stepped, witness.accelerator.stepped) == ("some", 6, 6)
    seen = Run.read(tmp_path / "run")
    assert (len(seen.steps), seen.finished, Run.read(tmp_path / "run", ranks=2).finished) == (4, 1, 0)
    assert judge([seen], expected, range(2)) == Verdict()
    (logs / "1.jsonl").write_text((logs / "0.jsonl").read_text())  # as if a second rank had been given the same
    assert judge([Run.read(tmp_path / "run", ranks=2)], expected, range(2)).repeated == 10


def test_first_step_of_a_resumed_run_is_in_its_log(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "algo-2.log").write_text("[algo-2/0] [tfhet] resumed at epoch=0 step=21, 21 steps into it\n")
    assert Run.read(Path(tmp_path)) == Run((), 21)

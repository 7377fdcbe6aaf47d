from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.job_scripts.witness_train import Witness, digests
from benchmarks.judge.judge import Run, Verdict, content_of, judge, judge_together, main
from tfhet.source import Raw, Scalar, write_tfrecords

SOURCE = Counter("aabcd")  # an example may be there twice


def run(*steps: tuple[int, str], first: int = 0) -> Run:
    return Run(first, tuple((epoch, Counter(content)) for epoch, content in steps))


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        ([run((0, "ab"), (0, "cda"), (1, "dcbaa"))], []),
        ([run((0, "ab"), (0, "cd"), (1, "dcbaa"))], ["epoch 0: 1 examples missing"]),
        ([run((0, "abcdaa"), (1, "dcbaa"))], ["epoch 0: 1 examples repeated"]),
        ([run((0, "abcdx"), (1, "dcbaa"))], ["epoch 0: 1 examples missing", "epoch 0: 1 examples not of the source"]),
        ([run((0, "abcdaxx"), (1, "dcbaa"))], ["epoch 0: 2 examples not of the source"]),
        ([run((0, "abcda"))], ["epoch 1: 5 examples missing"]),
        ([run((0, "abcda"), (1, "abcda"), (2, "b"))], ["epoch 2: 4 examples missing"]),
        ([run((0, "ab"), (0, "cd")), run((0, "a"), (1, "dcbaa"), first=2)], []),
        # The second step of the first run came after its checkpoint, so its examples have to come again.
        ([run((0, "ab"), (0, "cd")), run((0, "acd"), (1, "dcbaa"), first=1)], []),
        ([run((0, "ab"), (0, "cd")), run((0, "a"), (1, "dcbaa"), first=1)], ["epoch 0: 2 examples missing"]),
        # Steps that count, and examples that the next run sees once more.
        ([run((0, "ab"), (0, "cd")), run((0, "abcda"), (1, "dcbaa"), first=2)], ["epoch 0: 4 examples repeated"]),
        (
            [run((0, "ab")), run((0, "cda"), (1, "dcbaa"), first=2)],
            ["run 1 took the steps 0 to 1, and the next begins at 2"],
        ),
    ],
)
def test_what_was_not_kept_is_found(runs, found):
    assert judge(runs, SOURCE, epochs=2).words == tuple(found)


@pytest.mark.parametrize(
    ("steps", "left", "verdict"),
    [
        (("abc", "daabc", "da"), 0, Verdict()),
        (("abcda", "ab"), 3, Verdict()),
        (("abcda", "abx"), 3, Verdict(("1 examples not of the source in 2 epochs",), foreign=1)),
        (("abcda", "ab"), 1, Verdict(("2 examples missing in 2 epochs",), missing=2)),
        (("abcda", "abcdab"), 0, Verdict(("1 examples repeated in 2 epochs",), repeated=1)),
        (("abcda", "abcda"), 1, Verdict(("-1 examples missing in 2 epochs",), missing=-1)),  # what is left did come
    ],
)
def test_epochs_without_an_end_between_them_are_judged_together(steps, left, verdict):
    assert judge_together(run(*((0, content) for content in steps)), SOURCE, 2, left) == verdict


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


def test_what_a_rank_trains_on_comes_from_its_log_to_the_judge(tmp_path, capsys):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (5, 4, 4, 3), np.uint8), np.arange(5)
    channel = write_tfrecords(
        tmp_path / "channel",
        ({"image": image, "label": label} for image, label in zip(images, labels, strict=True)),
        2,
        {"image": Raw((4, 4, 3)), "label": Scalar()},
    )
    assert sorted(content_of(channel)) == sorted(digests(images, labels))
    assert digests(images.astype(np.float32) / 255, labels) == digests(images, labels)
    inner = Inner((images[:2], labels[:2]), (images[2:], labels[2:]))
    logs = tmp_path / "run" / "hosts" / "algo-1" / "output" / "data" / "witness"
    witness = Witness(logs / "0.jsonl", inner, inner)
    for epoch in range(2):
        for delivery in witness.reader.epoch(epoch):
            assert witness.accelerator.step(delivery) == "sums"
        assert witness.accelerator.step(None) == "sums"  # a dry rank
    witness.reader.failure = "some"
    assert (inner.failure, inner.stepped, witness.accelerator.stepped) == ("some", 6, 6)
    arguments = ["--channel", str(channel), "--epochs", "2", str(tmp_path / "run")]
    assert main(arguments) == 0
    assert "each of 5 examples exactly once in each of 2 epochs" in capsys.readouterr().out
    lines = [json.loads(line) for line in (logs / "0.jsonl").read_text().splitlines()]
    assert [(line["epoch"], len(line["content"])) for line in lines] == [(0, 2), (0, 3), (0, 0), (1, 2), (1, 3), (1, 0)]
    (logs / "1.jsonl").write_text((logs / "0.jsonl").read_text())  # as if a second rank had been given the same
    assert main(arguments) == 1
    assert "epoch 1: 5 examples repeated" in capsys.readouterr().out


def test_where_a_run_went_on_is_in_its_log(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "algo-2.log").write_text("[algo-2/0] [tfhet] resumed at epoch=0 step=21, 21 steps into it\n")
    assert Run.read(Path(tmp_path)) == Run(21, ())

"""What published training runs ask of a host: the arithmetic, and what the plan says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.worth.answer import CHAINS, INSTANCES, SPEED, Answer, Chain, _advice, answer, answers, by_training, rows
from tfhet import planes
from tfhet.catalogue import TrainingRate, shipped, training_rates
from tfhet.record import Figure, Interval, Record

POST = next(rate for rate in training_rates() if rate.side == 32)
COSTS = planes.get("tf_service").costs()


def of(us: Interval, rate: TrainingRate = POST) -> Answer:
    return answer(rate, "ml.p4d.24xlarge", Chain("a chain", "", ""), us, COSTS)


def test_every_published_training_has_an_instance_with_its_accelerators() -> None:
    for rate in training_rates():
        instance = shipped().instance(INSTANCES[rate.model, rate.gpu_kind, rate.gpus])
        assert instance.gpu_kind == rate.gpu_kind and instance.gpus % rate.gpus == 0
        assert rate.side in CHAINS and rate.source and rate.date.year >= 2020
    assert len(INSTANCES) == len(training_rates())


def test_a_training_needs_the_cpus_that_its_images_take_at_its_rate() -> None:
    found = of(Interval(100.0, 90.0, 120.0))
    busy = 112_300 * 100e-6
    assert found.needs.value == pytest.approx(busy)
    assert found.needs.low == pytest.approx(0.9 * busy / SPEED.high)
    assert found.needs.high == pytest.approx(1.2 * busy / SPEED.low)


def test_a_cheap_chain_needs_no_data_group_and_a_dear_one_does() -> None:
    cheap, dear, near = (of(Interval.exact(us)) for us in (10.0, 2000.0, 820.0))
    assert (cheap.verdict, cheap.advice) == ("no", "stay as you are")
    assert dear.verdict.startswith("input-bound, 2.3") and dear.advice.startswith("+ 1 c6i.32xlarge: 2.3")
    assert dear.saving_pct > 30.0 and dear.step_over_accelerator.value == pytest.approx(dear.speedup.value, rel=0.05)
    assert dear.speedup.low < dear.speedup.value < dear.speedup.high
    assert near.verdict == "perhaps"
    assert _advice([cheap]) == "stay as you are"
    assert _advice([cheap, near]) == "a chain: perhaps input-bound"
    assert _advice([dear, cheap, near]) == f"a chain: {dear.advice}; a chain: perhaps input-bound"


def test_what_others_measured_takes_the_place_of_what_the_model_says() -> None:
    post = next(chain for chain in CHAINS[32] if chain.published_us)
    found = answer(POST, "ml.p4d.24xlarge", post, Interval.exact(post.published_us), COSTS)
    assert found.advice == post.published_outcome and found.verdict.startswith("input-bound")


def test_one_accelerator_stands_for_as_many_as_the_instance_has() -> None:
    small = next(rate for rate in training_rates() if rate.gpus == 1 and rate.gpu_kind == "H100")
    assert small.on(8) == 8 * small.images_per_s
    found = answer(small, "ml.p5.48xlarge", Chain("a chain", "", ""), Interval.exact(650.0), COSTS)
    assert found.images_per_s == 8 * small.images_per_s and found.vcpus == 192
    assert found.training == "ViT-5-Small, H100, 8 times the rate of 1 GPU" and of(Interval.exact(10.0)).training == (
        "ResNet-50 on 32x32, A100"
    )


def test_costs_are_those_of_the_records_and_a_figure_that_is_missing_makes_no_line(tmp_path: Path) -> None:
    for words, figures in {
        "stages-imagenet-train": {"stages.imagenet-train.linear.uint8.us_per_image": 600.0},
        "stages-randaugment-224": {},
        "stages-aws-cifar": {"stages.aws-cifar.us_per_image": 8.0},
    }.items():
        made = {name: Figure.of([us, us, us], unit="us") for name, us in figures.items()}
        Record.of(words.replace("-", ".", 1), made).write(tmp_path / f"{words}.json")
    (tmp_path / "transport.json").write_bytes((Path(__file__).parents[2] / "results/transport.json").read_bytes())
    found = list(answers(tmp_path))
    assert {each.chain.words for each in found} == {
        "crop, flip: tfhet",
        "the post's: tfhet",
        "the post's: as the post reports it",
    }
    assert len(rows(tmp_path)) == len(found)
    head, lines = by_training(224, tmp_path)
    assert head[4:-1] == ["crop, flip: tfhet"] and all(len(line) == len(head) for line in lines)

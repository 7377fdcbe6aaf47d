"""What a published training run asks of a host's CPUs, and whether a data group would pay, by the plan's model.

Three numbers go in. How fast the accelerators are is published, by others (`tfhet.catalogue.training_rates`). What an
image costs is measured, in the records of `benchmarks.stages`. That a vCPU of the instance is as fast as one of the
machine that made these records is assumed, give or take `SPEED`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ROOT
from tfhet import plan, planes
from tfhet.catalogue import EC2, REGION, TrainingRate, shipped, training_rates
from tfhet.record import Interval, Record

SPEED = Interval(1.0, 0.7, 1.3)
"""Speed of an instance's vCPU over one of the machine that measured: assumed."""
DATA_TYPES = ("ml.c5.18xlarge", "ml.c6i.32xlarge", "ml.c7i.48xlarge")
MOST_HOSTS = 9
BATCH = {32: 1024, 224: 256}
"""Images of a rank's batch, by their side."""


@dataclass(frozen=True)
class Chain:
    """One way to make an image."""

    words: str
    record: str
    """Record of stages that measured it; "" for a cost that others published."""
    figure: str
    """Its figure, after the name of the chain."""
    published_us: float = 0.0
    published_outcome: str = ""
    """What others measured with it, and with data hosts: it takes the place of the model's words."""

    def cost_us(self, folder: Path) -> Interval | None:
        """CPU microseconds an image; None where the record has no such figure."""
        if not self.record:
            return Interval.exact(self.published_us)
        record = Record.read(folder / f"{self.record}.json")
        figure = record.figures.get(f"{record.name}.{self.figure}")
        return Interval.of(figure) if figure else None


_TRAIN, _RAND, _POST = "stages-imagenet-train", "stages-randaugment-224", "stages-aws-cifar"
AWS_MEASURED = "AWS measured 2.2 times the speed at 46 % less with 2 c5.18xlarge"
"""AWS's post on heterogeneous clusters of October 2022: 192 ms a step, then 86."""
CHAINS = {
    224: (
        Chain("crop, flip: tfhet", _TRAIN, "linear.uint8.us_per_image"),
        Chain("crop, flip: tf.data, tf.image", _TRAIN, "tf-image.linear.uint8.us_per_image"),
        Chain("RandAugment: tfhet", _RAND, "linear.uint8.us_per_image"),
        Chain("RandAugment: KerasCV", _RAND, "keras.linear.uint8.us_per_image"),
    ),
    32: (
        Chain("the post's: tfhet", _POST, "us_per_image"),
        Chain("the post's: TensorFlow, in batches, XLA", _POST, "tf-batched.xla.us_per_image"),
        Chain("the post's: as its example writes it, here", _POST, "example_us_per_image"),
        # A step of 192 ms of 8192 images kept 93 % of 96 vCPUs busy.
        Chain("the post's: as the post reports it", "", "", 1e6 * 0.192 * 96 * 0.93 / 8192, AWS_MEASURED),
    ),
}
"""Ways to make an image, by its side."""
INSTANCES = {
    ("ResNet-50 v1.5", "V100", 1): "ml.p3.2xlarge",
    ("ResNet-50 v1.5", "V100", 8): "ml.p3.16xlarge",
    ("ResNet-50 v1.5", "A100", 8): "ml.p4d.24xlarge",
    ("EfficientNet-B0", "V100", 8): "ml.p3.16xlarge",
    ("EfficientNet-B0", "A100", 8): "ml.p4de.24xlarge",
    ("ViT g/14", "A100", 8): "ml.p4de.24xlarge",
    ("ViT g/14", "H100", 8): "ml.p5.48xlarge",
    ("ViT-5-Small", "H100", 1): "ml.p5.48xlarge",
    ("ResNet-50 on 32x32", "A100", 8): "ml.p4d.24xlarge",
}
"""Instance that a published training is looked at on."""


@dataclass(frozen=True)
class Answer:
    """One training with one chain on one instance."""

    rate: TrainingRate
    instance: str
    chain: Chain
    images_per_s: float
    vcpus: int
    needs: Interval
    """vCPUs that the chain keeps busy at that rate."""
    step_over_accelerator: Interval
    """Step on the instance alone, over the accelerator's."""
    data_group: str
    """The best cluster with data hosts, where it costs less than the instance alone; "" where it does not."""
    speedup: Interval
    """Step on the instance alone, over that with the data group."""
    saving_pct: float
    """Saving per example with the data group."""

    @property
    def verdict(self) -> str:
        """Whether the instance alone is input-bound."""
        slower = self.step_over_accelerator
        if slower.low > 1.05:
            return f"input-bound, {slower.value:.2f} times the accelerator's step"
        return "perhaps" if slower.high > 1.05 else "no"

    @property
    def advice(self) -> str:
        if self.chain.published_outcome:
            return self.chain.published_outcome
        if not self.data_group:
            return "stay as you are"
        faster = f"{self.speedup.value:.2f} ({self.speedup.low:.2f} to {self.speedup.high:.2f}) times as fast"
        return f"{self.data_group}: {faster}, {self.saving_pct:.0f} % cheaper"

    @property
    def training(self) -> str:
        """The training in words, and whether its rate is that of one accelerator."""
        gpus = self.images_per_s / self.rate.images_per_s
        times = f", {gpus:.0f} times the rate of {self.rate.gpus} GPU" if gpus > 1.0 else ""
        return f"{self.rate.model}, {self.rate.gpu_kind}{times}"


def answers(folder: Path = ROOT / "results") -> Iterator[Answer]:
    """Every published training with every chain for its images. Raises UsageError or DataError for a record that cannot
    be read."""
    for rate in training_rates():
        for chain in CHAINS[rate.side]:
            cost_us = chain.cost_us(folder)
            if cost_us is not None:
                yield answer(rate, INSTANCES[rate.model, rate.gpu_kind, rate.gpus], chain, cost_us, _costs(folder))


def answer(rate: TrainingRate, name: str, chain: Chain, cost_us: Interval, costs: planes.PlaneCosts) -> Answer:
    known, batch = shipped(), BATCH[rate.side]
    instance = known.instance(name)
    images_per_s = rate.on(instance.gpus)
    accelerator_ms = 1e3 * batch * instance.gpus / images_per_s
    cut = plan.CutCost(chain.words, 0, cost_us, Interval.exact(0.0), 3.0 * rate.side**2, "uint8")
    trainer = plan.Trainer({rate.gpu_kind: Interval.exact(accelerator_ms)}, batch)
    workload = plan.Workload(plan.PipelineCost((cut,)), trainer, costs)
    host = plan.HostType.of(instance, SPEED)
    today = plan.ClusterShape(host, 1)
    data = [plan.HostType.of(known.instance(each), SPEED) for each in DATA_TYPES]
    space = plan.Space([host], data, [host.ranks], MOST_HOSTS)

    def price_of(each: str) -> float | None:
        price = known.price(each, REGION, EC2)
        return price.usd_per_hour if price else None

    found = plan.make_plan(workload, today, space, price_of, planes.get("tf_service"))
    alone = found.candidates[found.today]
    best = found.candidates[found.chosen] if found.chosen is not None else alone
    needs = Interval(*(images_per_s * us / 1e6 for us in (cost_us.value, cost_us.low, cost_us.high)))
    spread = Interval(needs.value / SPEED.value, needs.low / SPEED.high, needs.high / SPEED.low)
    usd, dearer = best.usd_per_million, alone.usd_per_million
    return Answer(
        rate,
        name,
        chain,
        images_per_s,
        instance.vcpus,
        spread,
        alone.prediction.step_s.times(1e3 / accelerator_ms),
        _words(best.cluster) if best.cluster.data else "",
        alone.prediction.step_s.times(1.0 / best.prediction.step_s.value),
        100.0 * (1.0 - usd.value / dearer.value) if usd and dearer else 0.0,
    )


def _words(cluster: plan.ClusterShape) -> str:
    assert cluster.data is not None
    return f"+ {cluster.data_hosts} {cluster.data.name.removeprefix('ml.')}"


@functools.cache
def _costs(folder: Path) -> planes.PlaneCosts:
    return planes.get("tf_service").costs(Record.read(folder / "transport.json"))


def by_training(side: int, folder: Path = ROOT / "results") -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table with a line for each training on images of `side`: the vCPUs that each chain needs."""
    found: dict[tuple[str, str], list[Answer]] = {}
    for each in answers(folder):
        if each.rate.side == side:
            found.setdefault((each.training, each.instance), []).append(each)
    chains = [chain.words for chain in CHAINS[side] if chain.cost_us(folder) is not None]
    lines = [
        [
            *(training, instance.removeprefix("ml."), f"{every[0].images_per_s:,.0f}", str(every[0].vcpus)),
            *(f"{each.needs.value:.3g} ({each.needs.low:.3g} to {each.needs.high:.3g})" for each in every),
            _advice(every),
        ]
        for (training, instance), every in found.items()
    ]
    return ["training", "instance", "images/s", "its vCPUs", *chains, "what to do"], lines


def _advice(every: Sequence[Answer]) -> str:
    """The advice for one training, from its answers with each chain: what is to be done, and what may be."""
    dear = [f"{each.chain.words}: {each.advice}" for each in every if each.data_group]
    near = [each.chain.words for each in every if not each.data_group and each.verdict == "perhaps"]
    dear += [f"{', '.join(near)}: perhaps input-bound"] if near else []
    return "; ".join(dear) or "stay as you are"


HEAD = ("training", "instance", "images/s", "chain", "needs vCPUs", "of", "input-bound", "what to do")


def rows(folder: Path = ROOT / "results") -> list[list[str]]:
    """The table: a line for each answer, in the columns of HEAD."""
    return [
        [
            each.training,
            each.instance.removeprefix("ml."),
            f"{each.images_per_s:,.0f}",
            each.chain.words,
            f"{each.needs.value:.3g} ({each.needs.low:.3g} to {each.needs.high:.3g})",
            str(each.vcpus),
            each.verdict,
            each.advice,
        ]
        for each in answers(folder)
    ]

"""Runs that others published, predicted from the published inputs.

The homogeneous run and the hosts are inputs. The heterogeneous run is predicted, and no number is fitted to it. Each
input that is not published is assumed with a range, and the assumption is listed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tfhet.plan import (
    ClusterShape,
    CutCost,
    HostType,
    Layout,
    PipelineCost,
    Prediction,
    Trainer,
    Where,
    Workload,
    predict,
)
from tfhet.planes import PlaneCosts, WireCost, get as plane
from tfhet.record import Figure, Interval


@dataclass(frozen=True)
class Published:
    """One published number and its prediction."""

    key: str
    """Part of a figure's name: `aws_tf` of `aws_tf_pct`."""
    run: str
    """Who ran it, and on what."""
    what: str
    published: float
    predicted: Figure
    """The prediction, in the unit of `published`."""
    binding: str
    """The binding resource of the prediction."""
    assumptions: tuple[str, ...]

    @property
    def error_pct(self) -> float:
        """Error of the prediction: percent of the published time, or points of a saving."""
        off = abs(self.predicted.value - self.published)
        return off if self.predicted.unit == "%" else 100.0 * off / self.published

    @property
    def is_within(self) -> bool:
        """Whether the published number is in the predicted interval."""
        return self.predicted.low <= self.published <= self.predicted.high


@dataclass(frozen=True)
class Run:
    """A homogeneous run, and the same training with data hosts."""

    key: str
    run: str
    workload: Workload
    before_s: Interval
    """Seconds of a step of the homogeneous run, as published."""
    cluster: ClusterShape
    """The cluster with data hosts."""
    layout: Layout
    usd_per_hour: tuple[float, float]
    """Prices as published, without the data hosts and with them."""
    assumptions: tuple[str, ...]

    def prediction(self) -> Prediction:
        """Returns the prediction of the run with data hosts."""
        return predict(self.workload, self.cluster, self.layout)

    def saving_pct(self) -> Figure:
        """Returns the saving of the cost of a step against the homogeneous run as published."""
        before, after = self.usd_per_hour
        ends = self.prediction().step_s
        save = [
            100.0 * (1.0 - after / before * step / self.before_s.value) for step in (ends.value, ends.high, ends.low)
        ]
        return Figure(save[0], save[1], save[2], "%", 1)

    def step(self, published_ms: float) -> Published:
        found = self.prediction()
        predicted = found.step_s.times(1e3).figure("ms")
        return Published(self.key, self.run, "step", published_ms, predicted, found.binding.value, self.assumptions)

    def saving(self, published_pct: float) -> Published:
        found = self.prediction()
        what = "saving of the cost of a step"
        key = f"{self.key}_saving"
        return Published(key, self.run, what, published_pct, self.saving_pct(), found.binding.value, self.assumptions)


def _at_its_end(before_s: Interval, vcpus: float, examples: int, bytes_per_example: float) -> PipelineCost:
    """Returns a pipeline that is cut at its end and keeps all vCPUs busy for the published step."""
    remote_us = before_s.times(1e6 * vcpus / examples)
    cut = CutCost("the last map", 0, remote_us, Interval.exact(0.0), bytes_per_example, "float32")
    return PipelineCost((cut,))


def _costs(reader: Interval, server: Interval) -> PlaneCosts:
    """Returns costs that are the same for all batches, with the request time of tf.data service."""
    cost = WireCost.one_in_flight(reader, server)
    return replace(plane("tf_service").costs(), wire=lambda batch_bytes: cost)


def aws_tensorflow() -> Run:
    """AWS's post of October 2022: ResNet-50 on 32x32 images, 8 ranks of 1,024, an augmentation for each image."""
    before_s, batch_size, ranks = Interval(0.192, 0.177, 0.209), 1024, 8
    examples = batch_size * ranks
    busy = 0.38
    return Run(
        "aws_tf",
        "AWS, TensorFlow: p4d.24xlarge, then with 2 c5.18xlarge",
        Workload(
            _at_its_end(before_s, 96, examples, 32 * 32 * 3 * 4 + 1),
            Trainer({"A100": before_s.times(1e3 * busy)}, batch_size),
            _costs(Interval(8.3, 0.86, 8.3), Interval(4.1, 0.80, 4.1)),
        ),
        before_s,
        ClusterShape(
            HostType("ml.p4d.24xlarge", 96, 8, "A100", 400),
            1,
            HostType("ml.c5.18xlarge", 72, network_gbit_per_s=25, speed=Interval(1.0, 0.95, 1.05)),
            2,
        ),
        Layout(Where.EVERYWHERE),
        (37.69, 45.03),
        (
            "published: 192 ms a step on 96 vCPUs (its own logs: 177 to 209), batches of 1,024 on each of 8 GPUs, the "
            "GPUs 38 % busy, a worker on each of the three hosts, 37.69 and 45.03 USD an hour",
            "the homogeneous run waits for all 96 vCPUs, which all work on the input pipeline",
            "the accelerator's step is the busy part of the homogeneous one, 73 ms",
            "a vCPU of c5 is as fast as one of p4d (0.95 to 1.05)",
            "float32 images of 12,289 bytes travel under Snappy, the default then: 8.3 s of CPU per GB for the rank, "
            "4.1 for the worker (at best 0.86 and 0.80, as without it), measured on a Xeon at 2.5 GHz",
        ),
    )


def aws_pytorch() -> Run:
    """AWS's example for PyTorch: MNIST with a Gaussian blur, one rank of 8,192, batches over gRPC."""
    before_s, batch_size = Interval(1.193, 1.19, 1.193), 8192
    gflop, peak_gflop_per_s = 590.0, 15_700.0
    at_peak_ms = 1e3 * gflop / peak_gflop_per_s
    workers, faster = 32 / 36, Interval(3.0 / 2.3, 1.0, 1.6)
    return Run(
        "aws_pytorch",
        "AWS, PyTorch: p3.2xlarge, then with a c5.9xlarge",
        Workload(
            _at_its_end(before_s, 8, batch_size, 28 * 28 * 4 + 1),
            Trainer({"V100": Interval(2 * at_peak_ms, at_peak_ms, at_peak_ms / 0.3)}, batch_size),
            _costs(Interval(0.86, 0.84, 2.6), Interval(0.80, 0.72, 1.4)),
        ),
        before_s,
        ClusterShape(
            HostType("ml.p3.2xlarge", 8, 1, "V100", 2.5),
            1,
            HostType(
                "ml.c5.9xlarge",
                36,
                network_gbit_per_s=12,
                speed=Interval(workers * faster.value, workers * faster.low, faster.high),
            ),
            1,
        ),
        Layout(Where.DATA, servers_per_host=2),
        (3.825, 5.661),
        (
            "published: 1,193 ms a step on 8 vCPUs, batches of 8,192, 32 processes that load on the c5.9xlarge, 2 that "
            "receive on the p3.2xlarge, which loads nothing itself; 3.825 and 5.661 USD an hour",
            "the homogeneous run waits for all 8 vCPUs",
            "32 processes keep 32 of the 36 vCPUs busy (at best 36)",
            "a vCPU of c5 is 1.3 times one of p3, as their clocks are, 3.0 and 2.3 GHz (1.0 to 1.6: the newer one has "
            "wider vectors)",
            f"the accelerator's step is {gflop:.0f} GFLOP at half of a V100's 15.7 TFLOP/s (all to 30 % of it)",
            "gRPC costs as much as in tf.data service without compression: 0.86 (to 2.6) s of CPU per GB for the rank, "
            "0.80 (to 1.4) for the worker",
        ),
    )


def ray() -> Run:
    """C. Rand, Effective Load Balancing with Ray on Amazon SageMaker, September 2023; it gives no GPU step."""
    before_s, batch_size = Interval.exact(1.0), 1
    return Run(
        "ray",
        "Ray: g5.xlarge, then with a c5.4xlarge",
        Workload(
            _at_its_end(before_s, 4, batch_size, 0.0),
            Trainer({"A10G": Interval(500.0, 0.0, 1000.0)}, batch_size),
            _costs(Interval.exact(1.0), Interval.exact(1.0)),
            overhead=Interval(1.0, 1.0, 1.1),
        ),
        before_s,
        ClusterShape(
            HostType("ml.g5.xlarge", 4, 1, "A10G", 2.5),
            1,
            HostType("ml.c5.4xlarge", 16, network_gbit_per_s=5, speed=Interval(1.0, 0.85, 1.15)),
            1,
        ),
        Layout(Where.EVERYWHERE),
        (1.408, 2.224),
        (
            "published: 4 vCPUs, then 20; a saving of 23 %, taken as the saving of the cost of a step",
            "not published: the step of the accelerator; it may be anything from 0 to the homogeneous step, whose "
            "middle is the value",
            "the homogeneous run waits for all 4 vCPUs; its step counts as 1 s",
            "a vCPU of c5 is as fast as one of g5 (0.85 to 1.15)",
            "moving the data adds nothing (to 10 % of the CPU); how many bytes travel is not published",
            "1.408 and 0.816 USD an hour, SageMaker's prices in us-east-1",
        ),
    )


def predictions() -> tuple[Published, ...]:
    """Returns every published number with its prediction."""
    tensorflow, pytorch = aws_tensorflow(), aws_pytorch()
    return (
        tensorflow.step(86.0),
        tensorflow.saving(46.0),
        pytorch.step(184.0),
        pytorch.saving(77.0),
        ray().saving(23.0),
    )

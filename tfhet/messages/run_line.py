"""All kinds of line by which the processes of a job tell the readers of its log what happens.

print(JobResultLine(3, "train.py ended on algo-2"))    # [tfhet] job_result code=3 cause="train.py ended on algo-2"
parse_line(text)                                       # the same object again; None for a line that is for people
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tfhet.messages.log_line import amount, read, whole, write
from tfhet.messages.metric_line import MetricLine

_PLANE = "plane."


@dataclass(frozen=True)
class HostLine:
    """A launcher begins: where it stands in its job."""

    mode: str
    """`homogeneous` or `heterogeneous`."""
    role: str
    """`data` delivers data, `dnn` trains; a training strategy may have more."""
    group: str
    """Name of its host's group."""
    ranks: int = 0
    """Number of ranks in the whole job; 0 on a data host, which does not know."""
    plane: Mapping[str, str] = field(default_factory=dict)
    """What the data plane adds, like the number of its workers."""

    def __str__(self) -> str:
        fields = {name: getattr(self, name) for name in ("mode", "role", "group", "ranks")}
        return write("host", {**fields, **{f"{_PLANE}{name}": value for name, value in self.plane.items()}})

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> HostLine:
        """Raises KeyError and ValueError."""
        plane = {name.removeprefix(_PLANE): value for name, value in fields.items() if name.startswith(_PLANE)}
        return cls(fields["mode"], fields["role"], fields["group"], int(amount(fields["ranks"])), plane)


@dataclass(frozen=True)
class FirstBatchLine:
    """Rank 0 has its first batch."""

    after_s: float
    """Since it asked for data."""

    def __str__(self) -> str:
        return write("first_batch", {"after_s": f"{self.after_s:.2f}"})

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> FirstBatchLine:
        """Raises KeyError and ValueError."""
        return cls(amount(fields["after_s"]))


@dataclass(frozen=True)
class EpochLine:
    """An epoch has ended. The metric definitions of training jobs match this line as it is."""

    numbers: Mapping[str, float]
    """By name, `epoch` first; fractions are written with four digits."""

    def __str__(self) -> str:
        told = {name: f"{each:.4f}" if isinstance(each, float) else each for name, each in self.numbers.items()}
        return write("end of", told)

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> EpochLine:
        """Words that are no numbers are left out. Raises KeyError and ValueError where the epoch is none."""
        whole(fields["epoch"])
        return cls(_numbers(fields))


@dataclass(frozen=True)
class StepPartsLine:
    """The end of a training: where the time of a step went."""

    parts_ms: Mapping[str, float]
    """Median milliseconds by part."""

    def __str__(self) -> str:
        return write("step_parts", {f"{name}_ms": f"{ms:.2f}" for name, ms in self.parts_ms.items()})

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> StepPartsLine:
        """Raises ValueError."""
        return cls({name.removesuffix("_ms"): amount(ms) for name, ms in fields.items() if name.endswith("_ms")})


@dataclass(frozen=True)
class RestartLine:
    """A process of the data plane ended by itself and is started again."""

    process: str
    code: int
    """Its exit code; negative for the signal that ended it."""

    def __str__(self) -> str:
        return write("restart", vars(self))

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> RestartLine:
        """Raises KeyError and ValueError."""
        return cls(fields["process"], whole(fields["code"]))


@dataclass(frozen=True)
class JobResultLine:
    """A launcher ends because the job has failed, or was stopped."""

    code: int
    cause: str
    """One line."""

    def __str__(self) -> str:
        return write("job_result", vars(self))

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> JobResultLine:
        """Raises KeyError and ValueError."""
        return cls(whole(fields["code"]), fields["cause"])


@dataclass(frozen=True)
class ContainerFailureLine:
    """The container of a simulated host could not be made."""

    cause: str

    def __str__(self) -> str:
        return write("container_failure", vars(self))

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> ContainerFailureLine:
        """Raises KeyError."""
        return cls(fields["cause"])


RunLine = (
    MetricLine
    | HostLine
    | FirstBatchLine
    | EpochLine
    | StepPartsLine
    | RestartLine
    | JobResultLine
    | ContainerFailureLine
)

KINDS: Mapping[str, Callable[[Mapping[str, str]], RunLine]] = {
    "": MetricLine.of,
    "host": HostLine.of,
    "first_batch": FirstBatchLine.of,
    "end of": EpochLine.of,
    "step_parts": StepPartsLine.of,
    "restart": RestartLine.of,
    "job_result": JobResultLine.of,
    "container_failure": ContainerFailureLine.of,
}
"""How the fields of each kind are read, by the words that stand after the mark."""


def parse_line(text: str) -> RunLine | None:
    """What a line of a log says to programs; None for a line that is for people, or torn. Never raises."""
    found = read(text)
    if found is None or found[0] not in KINDS:
        return None
    try:
        return KINDS[found[0]](found[1])
    except (KeyError, ValueError):
        return None


def epoch_pattern(name: str, number: str) -> str:
    """The regular expression by which CloudWatch finds one number of an epoch line; `number`: that of a number."""
    return rf"\[tfhet\] end of epoch=.* {name}=({number})"


def _numbers(fields: Mapping[str, str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, text in fields.items():
        for kind in (whole, float):
            try:
                found[name] = kind(text)
                break
            except ValueError:
                continue
    return found

"""The lines of a log that programs read: `[tfhet] KIND key=value key="another value"`.

    print(JobResultLine(3, "train.py ended on algo-2"))    # [tfhet] job_result code=3 cause="train.py ended on algo-2"
    parse_line(text)                                       # the same object again; None for a line that is for people

Text before the mark does no harm: a host's name, a tag of mpirun's, a time. All other lines of a log are for people.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from typing import ClassVar, Self

import msgspec

from tfhet.schema import Amount, Count

_START = re.compile(r"\[tfhet\] (?:([a-z_]{1,20}(?: [a-z_]{1,20})?) )?(?=[a-z][\w.]*=)", re.ASCII)
_PAIR = re.compile(r'([a-z][\w.]*)=("(?:[^"\\]|\\.)*"|[^\s"\[]+)(?: |(?=\[)|\s*$)', re.ASCII)
_BARE = re.compile(r"[!#-Z^-~]+")
"""A value that needs no quotes. A `[` begins the line of another process where the output of two is mixed."""
_PLANE = "plane."

UNITS = {
    "step": "Count",
    "epoch": "Count",
    "step_ms": "Milliseconds",
    "examples_per_s": "Count/Second",
    "loss": "None",
    "wait_pct": "Percent",
}
"""The units of the numbers of a metric line, in CloudWatch's words."""


def write(kind: str, values: Mapping[str, object]) -> str:
    """The line of a kind. Values are texts and numbers; a text is quoted as in JSON where it has to be."""
    texts = {name: str(value) for name, value in values.items()}
    pairs = [f"{name}={text if _BARE.fullmatch(text) else json.dumps(text)}" for name, text in texts.items()]
    return " ".join(["[tfhet]", *([kind] if kind else []), *pairs])


def _digits(value: float, decimals: int) -> str:
    """A number with `decimals`, or with three significant digits if more than 1 % of it would be lost."""
    return f"{value:.{decimals}f}" if value == 0 or not abs(value) * 10**decimals < 100 else f"{value:.3g}"


def read(text: str) -> tuple[str, dict[str, str]] | None:
    """Kind and fields of a line of a log; None for a line that is for people. Never raises."""
    if (start := _START.search(text)) is None:
        return None
    found, position = {}, start.end()
    while (pair := _PAIR.match(text, position)) is not None:
        found[pair[1]] = _unquoted(pair[2])
        position = pair.end()
    return (start[1] or "", found) if found else None


def parse_line(text: str) -> RunLine | None:
    """The line of a log as an object; None for a line that is for people, or torn. Never raises."""
    kind, values = read(text) or ("", {})
    try:
        return KINDS[kind].of(values)
    except (KeyError, ValueError):
        return None


def metric_pattern(name: str, number: str) -> str:
    """The regular expression by which CloudWatch finds one number of a metric line. number: one for a number."""
    before = "" if name == "step" else "step=[0-9]+ .*"
    return rf"\[tfhet\] {before}{name}=({number})"


def epoch_pattern(name: str, number: str) -> str:
    """The same for an epoch line."""
    return rf"\[tfhet\] end of epoch=.* {name}=({number})"


class RunLine(msgspec.Struct, frozen=True):
    """One kind of line: texts, integers, and floats that are written with two digits."""

    kind: ClassVar[str]
    """The words that stand after the mark."""

    def __str__(self) -> str:
        values = msgspec.structs.asdict(self)
        return write(self.kind, {name: f"{x:.2f}" if isinstance(x, float) else x for name, x in values.items()})

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """The line with these fields; numbers may be texts. Raises KeyError and ValueError for another line."""
        return msgspec.convert(values, cls, strict=False)


class MetricLine(RunLine, frozen=True):
    """The numbers that rank 0 prints now and then: step and epoch reached, and means since the last such line. It has
    no word for its kind, because the metric definitions of training jobs match it as it is:

        [tfhet] step=500 epoch=2 step_ms=86.1 examples_per_s=95143 loss=2.3000 wait_pct=3.1
    """

    kind: ClassVar[str] = ""

    step: Count
    epoch: Count
    step_ms: Amount
    examples_per_s: Amount
    """Sum over all ranks."""
    wait_pct: Amount
    """Share of the steps' time spent waiting for data, 0 to 100."""
    loss: float | None = None
    """Mean over the epoch so far; None for a training without one. May be nan or infinite."""

    @classmethod
    def parse(cls, text: str) -> MetricLine | None:
        """The metric line in a line of a log, whatever stands before or after it; None for any other line."""
        line = parse_line(text)
        return line if isinstance(line, MetricLine) else None

    def __str__(self) -> str:
        loss = {} if self.loss is None else {"loss": _digits(self.loss, 4)}
        values = {"step": self.step, "epoch": self.epoch, "step_ms": _digits(self.step_ms, 1)}
        values |= {"examples_per_s": _digits(self.examples_per_s, 0), **loss, "wait_pct": f"{self.wait_pct:.1f}"}
        return write(self.kind, values)

    def exact(self) -> str:
        """The line with all digits."""
        return write(self.kind, self.numbers())

    def numbers(self) -> Mapping[str, float]:
        """By name, without a loss of None."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


class HostLine(RunLine, frozen=True):
    """A launcher begins: where it stands in its job."""

    kind: ClassVar[str] = "host"

    mode: str
    """`homogeneous` or `heterogeneous`."""
    role: str
    """`data` delivers data, `dnn` trains; a training strategy may have more."""
    group: str
    ranks: Count = 0
    """Number of ranks in the whole job; 0 on a data host, which does not know."""
    plane: Mapping[str, str] = {}
    """Additions of the data plane, like the number of its workers."""

    def __str__(self) -> str:
        values = msgspec.structs.asdict(self)
        plane = values.pop("plane")
        return write(self.kind, {**values, **{f"{_PLANE}{name}": value for name, value in plane.items()}})

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        plane = {name.removeprefix(_PLANE): value for name, value in values.items() if name.startswith(_PLANE)}
        return super().of({**values, "plane": plane})


class FirstBatchLine(RunLine, frozen=True):
    """Rank 0 has its first batch."""

    kind: ClassVar[str] = "first_batch"

    after_s: Amount
    """Seconds since it asked for data."""


class EpochLine(RunLine, frozen=True):
    """An epoch has ended. The metric definitions of training jobs match this line as it is."""

    kind: ClassVar[str] = "end of"

    numbers: Mapping[str, float]
    """By name, `epoch` first; fractions are written with four digits, small ones with three significant ones."""

    def __str__(self) -> str:
        return write(
            self.kind, {name: _digits(x, 4) if isinstance(x, float) else x for name, x in self.numbers.items()}
        )

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Skips fields that are not numbers. Raises KeyError and ValueError if the epoch is not an integer."""
        numbers: dict[str, float] = {}
        for name, text in values.items():
            with contextlib.suppress(ValueError):
                numbers[name] = msgspec.convert(text, int | float, strict=False)
        return cls({**numbers, "epoch": msgspec.convert(numbers["epoch"], int)})


class StepPartsLine(RunLine, frozen=True):
    """The end of a training: where the time of a step went."""

    kind: ClassVar[str] = "step_parts"

    parts_ms: Mapping[str, Amount]
    """Median milliseconds by part."""

    def __str__(self) -> str:
        return write(self.kind, {f"{name}_ms": f"{ms:.2f}" for name, ms in self.parts_ms.items()})

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        return super().of({"parts_ms": {name[:-3]: ms for name, ms in values.items() if name.endswith("_ms")}})


class RestartLine(RunLine, frozen=True):
    """A process of the data plane ended by itself and is started again."""

    kind: ClassVar[str] = "restart"

    process: str
    code: int
    """Its exit code; negative for the signal that ended it."""


class JobResultLine(RunLine, frozen=True):
    """A launcher ends because the job has failed, or was stopped."""

    kind: ClassVar[str] = "job_result"

    code: int
    cause: str
    """One line."""


class ContainerFailureLine(RunLine, frozen=True):
    """The container of a simulated host could not be made."""

    kind: ClassVar[str] = "container_failure"

    cause: str


KINDS: Mapping[str, type[RunLine]] = {kind.kind: kind for kind in RunLine.__subclasses__()}
"""All kinds of line, by the words that stand after the mark."""


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:  # an escape that JSON does not have
        return text[1:-1]

"""The result of a profile: the cost of each part, and whether the parts explain the whole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from tfhet.errors import DataError
from tfhet.record import Figure, Record, median
from tfhet.schema import from_json

PYTHON = "Python"
"""Kind of the parts of a loader."""
RAY = "Ray"
"""Kind of the parts of a Ray data set."""
NATIVE = "Native"
"""Kind of the parts of a pipeline that runs natively."""
PLANES = {PYTHON: "feed", NATIVE: "feed", RAY: "ray"}
"""Name of the data plane that serves parts of a kind, unless tf.data service does."""


@dataclass(frozen=True)
class Cost:
    """The measured cost of one part. `name`, `kind`, `ops` and `parallel` are those of `PipelinePart`."""

    name: str
    cumulative_us: tuple[float, ...]
    """CPU microseconds per example of the pipeline up to and including this part, one value for each round."""
    alone_us: tuple[float, ...] = ()
    """CPU microseconds per example of this part alone, on elements in memory; empty where that is impossible."""
    bytes_per_example: int = 0
    """Bytes of one example after this part, labels included."""
    dtype: str = ""
    examples: int = 1
    kind: str = ""
    ops: tuple[str, ...] = ()
    parallel: bool | None = None


@dataclass(frozen=True)
class Stored:
    """A sample of images, as their files and as `tfhet convert --store yuv420` stores them."""

    images: int
    """Number of images of the sample."""
    file_us: float
    """CPU microseconds per image of the part that decodes, from the files."""
    stored_us: float
    """The same, from the stored images."""
    file_bytes: int
    """Mean bytes of a file."""
    stored_bytes: int
    """Mean bytes of a stored image."""


@dataclass(frozen=True)
class Profile:
    """The costs of all parts in order; the cumulative cost of the last part is that of the whole pipeline."""

    name: str
    costs: tuple[Cost, ...]
    """Costs in order, at least one; the source comes first."""
    examples: int = 0
    """Number of examples in each run."""
    beside_us: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """CPU microseconds per example that the data plane takes beside the parts, of the `reader` and of the `server`, one
    value for each round; empty where that was not measured."""
    stored: Stored | None = None
    """Costs of stored images; None if they were not measured."""

    @property
    def plane(self) -> str:
        """Name of the data plane that serves such a pipeline."""
        return PLANES.get(self.costs[0].kind, "tf_service")

    @property
    def whole_us(self) -> float:
        return median(self.costs[-1].cumulative_us)

    def added_us(self, index: int) -> tuple[float, ...]:
        """Returns what part `index` adds to the parts before it, for each round. All parts sum to the whole."""
        own = self.costs[index].cumulative_us
        if index == 0:
            return own
        return tuple(a - b for a, b in zip(own, self.costs[index - 1].cumulative_us, strict=True))

    def us(self, index: int) -> float:
        """Returns the cost of part `index` in CPU microseconds per example: the median of `added_us`."""
        return median(self.added_us(index))

    def share(self, index: int) -> float:
        """Returns the share of part `index` in the whole, from 0 to 1."""
        return max(0.0, self.us(index)) / self.whole_us if self.whole_us > 0 else 0.0

    def alone_us(self, index: int) -> tuple[float, ...]:
        """Returns the cost of the part alone; where that was not measured (a source, a shuffle), what the part adds."""
        return self.costs[index].alone_us or self.added_us(index)

    def sum_over_whole(self) -> Figure:
        """Returns the sum of all parts, each measured alone, over the whole: 1 when the parts explain it."""
        sums = [sum(values) for values in zip(*(self.alone_us(i) for i in range(len(self.costs))), strict=True)]
        return Figure.ratio(sums, self.costs[-1].cumulative_us, unit="x", against="the whole pipeline")

    def names(self) -> list[str]:
        """Returns the names of the parts in figures: letters, digits and underscores, each different."""
        found: list[str] = []
        for cost in self.costs:
            short = re.sub(r"\([^()]*\)", "", cost.name)
            name = word = re.sub(r"\W+", "_", short).strip("_").lower() or "part"
            number = 2
            while name in found:
                name, number = f"{word}_{number}", number + 1
            found.append(name)
        return found

    def figures(self) -> dict[str, Figure]:
        """Returns figures by name: what each part adds, each alone, the whole, and the parts' sum over the whole."""
        table = {}
        for index, name in enumerate(self.names()):
            table[f"profile.{name}.us"] = Figure.of(self.added_us(index), unit="us")
            if self.costs[index].alone_us:
                table[f"profile.{name}.alone_us"] = Figure.of(self.costs[index].alone_us, unit="us")
        table["profile.whole.us"] = Figure.of(self.costs[-1].cumulative_us, unit="us")
        table["profile.sum_over_whole"] = self.sum_over_whole()
        for end, samples in self.beside_us.items():
            table[f"profile.beside.{end}.us"] = Figure.of(samples, unit="us")
        return table

    def record(self, command: Sequence[str] = ()) -> Record:
        """Returns the record, with the raw samples of every prefix and the bytes after every part."""
        details = {"examples": self.examples, "parts": [asdict(cost) for cost in self.costs]}
        if self.beside_us:
            details["beside_us"] = dict(self.beside_us)
        if self.stored:
            details["stored"] = asdict(self.stored)
        return Record.of(f"profile.{self.name}", self.figures(), details=details, command=command)

    @classmethod
    def of(cls, record: Record) -> Profile:
        """Reads what `record` returned. Raises DataError for a record that is not of a profile."""
        _, _, name = record.name.partition("profile.")
        what, details = f"record {record.name!r}", record.details
        costs = from_json(tuple[Cost, ...], details.get("parts") or (), what)
        beside_us = from_json(dict[str, tuple[float, ...]], details.get("beside_us") or {}, what)
        rounds = {len(cost.cumulative_us) for cost in costs}
        if not (name and len(rounds) == 1 and min(rounds)):
            raise DataError(f"{what} is not of a profile; make one with: tfhet profile ... --json FILE")
        stored = from_json(Stored, details["stored"], what) if details.get("stored") else None
        return cls(name, costs, from_json(int, details.get("examples") or 0, what), beside_us, stored)

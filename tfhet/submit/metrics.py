"""SageMaker's metric definitions: regular expressions by which it finds numbers in the log of a job."""

from __future__ import annotations

from dataclasses import dataclass

from tfhet.messages import UNITS, epoch_pattern, metric_pattern

_NUMBER = "-?[0-9.]+"
"""No nan and no inf, which CloudWatch does not take."""


@dataclass(frozen=True)
class MetricDefinition:
    """One number of the log."""

    name: str
    """Name in CloudWatch, at most 255 characters."""
    regex: str
    """Its only group is the number. At most 500 characters."""
    unit: str
    """Unit, in CloudWatch's words."""
    says: str
    """Description in one line."""

    def to_request(self) -> dict[str, str]:
        """An element of AlgorithmSpecification.MetricDefinitions in CreateTrainingJob."""
        return {"Name": self.name, "Regex": self.regex}


def _of_line(name: str, says: str) -> MetricDefinition:
    """A number of the metric line (`messages.MetricLine`), which rank 0 alone prints."""
    return MetricDefinition(name, metric_pattern(name, _NUMBER), UNITS[name], says)


def _of_epoch(word: str, says: str, name: str = "") -> MetricDefinition:
    """A number of the line at the end of an epoch, under its own name if none is given."""
    return MetricDefinition(name or word, epoch_pattern(word, _NUMBER), "None", says)


DEFINITIONS = (
    _of_line("step", "steps taken"),
    _of_line("epoch", "the epoch, from 0"),
    _of_line("step_ms", "mean length of a step since the last line"),
    _of_line("examples_per_s", "examples of all ranks"),
    _of_line("loss", "mean over the epoch so far"),
    _of_line("wait_pct", "share of the steps' time spent waiting for data"),
    _of_epoch("accuracy", "of the epoch's training"),
    _of_epoch("val_loss", "on the validation set"),
    _of_epoch("val_accuracy", "on the validation set"),
    _of_epoch("missing", "examples that no rank has seen in the epoch, by the audit", name="examples_missing"),
)
"""SageMaker takes at most 40."""

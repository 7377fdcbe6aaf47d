"""The section `tuning` of a job file, with the names of SageMaker's CreateHyperParameterTuningJob in snake case.

botocore's service model (1.44.8) and the API reference allow instance groups in a tuning job: the `ResourceConfig` of
HyperParameterTrainingJobDefinition is the shape of CreateTrainingJob, with `InstanceGroups`. Its alternative
HyperParameterTuningResourceConfig, for several instance types to choose from, has no groups, so it is not used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from tfhet.schema import matching, one_of, whole
from tfhet.submit import values
from tfhet.submit.values import Value

GRID = "Grid"
STRATEGIES = ("Bayesian", "Random", GRID)
_LOGARITHMIC, _REVERSE = "Logarithmic", "ReverseLogarithmic"
_SCALES = ("Auto", "Linear", _LOGARITHMIC, _REVERSE)
MOST_RANGES = 30
Jobs = Annotated[int, whole(1, 100_000, "a whole number of training jobs")]
Categories = Annotated[tuple[Value, ...], Meta(min_length=1, max_length=30, description="1 to 30 values")]


@dataclass(frozen=True)
class Objective:
    metric_name: Annotated[str, matching(r"\S(.*\S)?", "the name of a metric", 255)]
    type: Annotated[str, one_of(("Maximize", "Minimize"))]
    regex: Annotated[str, matching(r".+", "a regular expression", 500)] = ""
    """Finds the metric in the log, in its only group; "" for a metric that tfhet prints."""

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.regex).groups
        except re.error as error:
            raise ValueError(f"given a regex that Python reads: {error}") from None
        if self.regex and groups != 1:
            raise ValueError(f"given a regex with one group, which is the number; it has {groups}")


@dataclass(frozen=True)
class IntegerRange:
    min_value: int
    max_value: int
    scaling_type: Annotated[str, one_of(_SCALES[:3])] = _SCALES[0]

    def __post_init__(self) -> None:
        _check_range(self)


@dataclass(frozen=True)
class ContinuousRange:
    min_value: float
    max_value: float
    scaling_type: Annotated[str, one_of(_SCALES)] = _SCALES[0]

    def __post_init__(self) -> None:
        _check_range(self)
        if self.scaling_type == _REVERSE and not (self.min_value >= 0 and self.max_value < 1):
            raise ValueError(f"given a range in 0 <= x < 1 for the scaling_type {_REVERSE}")


def _check_range(given: IntegerRange | ContinuousRange) -> None:
    if given.min_value >= given.max_value:
        raise ValueError("given a min_value below max_value")
    if given.scaling_type == _LOGARITHMIC and given.min_value <= 0:
        raise ValueError(f"given a min_value above 0 for the scaling_type {_LOGARITHMIC}")


@dataclass(frozen=True)
class Tuning:
    """How SageMaker searches for hyperparameters by training jobs."""

    objective: Objective
    max_number_of_training_jobs: Jobs
    max_parallel_training_jobs: Jobs
    strategy: Annotated[str, one_of(STRATEGIES)] = STRATEGIES[0]
    training_job_early_stopping_type: Annotated[str, one_of(("Off", "Auto"))] = "Off"
    integer_parameter_ranges: Mapping[values.Parameter, IntegerRange] = field(default_factory=dict)
    continuous_parameter_ranges: Mapping[values.Parameter, ContinuousRange] = field(default_factory=dict)
    categorical_parameter_ranges: Mapping[values.Parameter, Categories] = field(default_factory=dict)

    def parameters(self) -> Iterator[tuple[str, str, tuple[Value, ...]]]:
        """Yields the part of the file, the name, and the values of each hyperparameter; of a range its ends."""
        ranges: dict[str, Mapping[str, Any]] = {
            "integer_parameter_ranges": self.integer_parameter_ranges,
            "continuous_parameter_ranges": self.continuous_parameter_ranges,
        }
        for part, found in ranges.items():
            for name, each in found.items():
                yield f"tuning: {part}: {name}", name, (each.min_value, each.max_value)
        for name, categories in self.categorical_parameter_ranges.items():
            yield f"tuning: categorical_parameter_ranges: {name}", name, categories

    @property
    def combinations(self) -> float:
        """Number of combinations of values; infinite with a continuous range."""
        if self.continuous_parameter_ranges:
            return math.inf
        integers = (each.max_value - each.min_value + 1 for each in self.integer_parameter_ranges.values())
        return math.prod((*integers, *map(len, self.categorical_parameter_ranges.values())))

    def to_request(self, encoded: Callable[[Value], str]) -> dict[str, Any]:
        """Returns HyperParameterTuningJobConfig. encoded: converts a category to the text of a hyperparameter."""
        categories = self.categorical_parameter_ranges.items()
        return {
            "Strategy": self.strategy,
            "HyperParameterTuningJobObjective": {"Type": self.objective.type, "MetricName": self.objective.metric_name},
            "ResourceLimits": {
                "MaxNumberOfTrainingJobs": self.max_number_of_training_jobs,
                "MaxParallelTrainingJobs": self.max_parallel_training_jobs,
            },
            "ParameterRanges": {
                "IntegerParameterRanges": _ranges(self.integer_parameter_ranges),
                "ContinuousParameterRanges": _ranges(self.continuous_parameter_ranges),
                "CategoricalParameterRanges": [
                    {"Name": name, "Values": [encoded(value) for value in each]} for name, each in categories
                ],
            },
            "TrainingJobEarlyStoppingType": self.training_job_early_stopping_type,
        }


def _ranges(found: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {
            "Name": name,
            "MinValue": str(each.min_value),
            "MaxValue": str(each.max_value),
            "ScalingType": each.scaling_type,
        }
        for name, each in found.items()
    ]

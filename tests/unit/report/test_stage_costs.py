"""report/stage_costs.py: the parts of a pipeline, from the record of a profile."""

from __future__ import annotations

import pytest

from tfhet.errors import DataError
from tfhet.profile import Cost, Profile
from tfhet.record import Record
from tfhet.report.stage_costs import stage_costs

PROFILE = Profile(
    "aws-cifar",
    (
        Cost("read, parse and batch", (3.0, 3.1)),
        Cost("dilate()", (5.0, 5.2), (1.9, 2.0)),
        Cost("random_flip(); random_rotation(); random_zoom()", (9.0, 9.1), (4.0, 4.1)),
        Cost("rescale()", (11.0, 11.3), (1.9, 2.1)),
    ),
).record()
WHERE = {
    "dilate(size=3)": "data_group",
    "random_flip()": "data_group",
    "random_zoom()": "trainer",
    "rescale()": "trainer",
}


def test_a_recorded_profile_is_read_part_by_part() -> None:
    costs = stage_costs(PROFILE, {})
    assert [part.name for part in costs.parts] == [part["name"] for part in PROFILE.details["parts"]]
    assert costs.parts[1].added is PROFILE.figures["profile.dilate.us"]
    assert costs.parts[1].alone is PROFILE.figures["profile.dilate.alone_us"] and costs.parts[0].alone is None
    assert costs.whole is PROFILE.figures["profile.whole.us"]
    assert list(costs.chart().figures) == [part.name for part in costs.parts]


def test_a_part_says_where_its_stage_ran() -> None:
    costs = stage_costs(PROFILE, WHERE)
    places = {part.name: part.place for part in costs.parts}
    assert places["dilate()"] == "data_group" and places["rescale()"] == "trainer"
    assert places["random_flip(); random_rotation(); random_zoom()"] == "", "it ran in two places"


def test_another_record_is_no_profile() -> None:
    with pytest.raises(DataError, match="stages.aws-cifar"):
        stage_costs(Record("stages.aws-cifar"), {})

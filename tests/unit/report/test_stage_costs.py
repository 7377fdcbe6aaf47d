"""report/stage_costs.py: the parts of a pipeline, from the record of a profile."""

from __future__ import annotations

import pytest
from aws_cifar_profile import PROFILE

from tfhet.errors import DataError
from tfhet.record import Record
from tfhet.report.stage_costs import stage_costs

RECORD = PROFILE.record()
WHERE = {
    "dilate(size=3)": "data_group",
    "random_flip()": "data_group",
    "random_zoom()": "trainer",
    "rescale()": "trainer",
}


def test_a_recorded_profile_is_read_part_by_part() -> None:
    record, costs = RECORD, stage_costs(RECORD, {})
    assert [part.name for part in costs.parts] == [part["name"] for part in record.details["parts"]]
    assert costs.parts[1].added is record.figures["profile.dilate.us"]
    assert costs.parts[1].alone is record.figures["profile.dilate.alone_us"] and costs.parts[0].alone is None
    assert costs.whole is record.figures["profile.whole.us"]
    assert list(costs.chart().figures) == [part.name for part in costs.parts]


def test_a_part_says_where_its_stage_ran() -> None:
    costs = stage_costs(RECORD, WHERE)
    places = {part.name: part.place for part in costs.parts}
    assert places["dilate()"] == "data_group" and places["rescale()"] == "trainer"
    assert places["random_flip(); random_rotation(); random_zoom()"] == "", "it ran in two places"


def test_another_record_is_no_profile() -> None:
    with pytest.raises(DataError):
        stage_costs(Record("stages.aws-cifar"), {})

"""planes/costs.py: what a plan learns from every data plane."""

from __future__ import annotations

import pytest

from tfhet import planes
from tfhet.errors import UsageError
from tfhet.record import Record


@pytest.mark.parametrize("name", planes.names())
def test_every_plane_says_what_serving_costs_and_refuses_a_record_of_something_else(name):
    plane = planes.get(name)
    assert plane.costs().source and plane.costs().compressions[0] == "none"
    if plane.costs().most_servers_per_host:
        cost = plane.costs().wire("uint8", 1 << 20, "none")
        assert cost.reader_s_per_gb.value > 0 and cost.server_s_per_gb.value > 0 and cost.gb_per_s.value > 0
    with pytest.raises(UsageError, match="stages"):
        plane.costs(Record("stages"))


@pytest.mark.parametrize("name", planes.names())
def test_every_plane_makes_its_own_arguments_of_a_layout(name):
    plane = planes.get(name)
    found = plane.arguments(2, 1)
    settings = plane.settings(**found)
    assert {argument: getattr(settings, argument) for argument in found} == found
    assert bool(found) == bool(plane.costs().most_servers_per_host)

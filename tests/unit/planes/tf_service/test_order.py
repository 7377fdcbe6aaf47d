from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from tfhet.errors import ClusterError
from tfhet.planes.tf_service import Order

ORDER = Order("127.0.0.2:6000", 3, ("algo-2", "algo-3"), ("jpeg", "tone"))


@pytest.mark.parametrize("order", [ORDER, Order("algo-1:1"), Order("a:1", native=())])
def test_an_order_goes_through_json_and_back(order):
    assert Order.parse(json.loads(json.dumps(asdict(order)))) == order


@pytest.mark.parametrize(
    "change",
    [
        {"workers": None},
        {"workers": -1},
        {"workers": True},
        {"data_hosts": "algo-2"},
        {"data_hosts": [1]},
        {"dispatcher": "algo-2"},
        {"dispatcher": "algo-2:x"},
        {"dispatcher": ":6000"},
        {"dispatcher": "algo-2:0"},
        {"dispatcher": None},
        {"native": "tone"},
        {"native": [1]},
    ],
)
def test_a_wrong_order_is_refused_naming_the_field(change):
    (name,) = change
    with pytest.raises(ClusterError, match=f"tf_service: `{name}"):
        Order.parse({**asdict(ORDER), **change})

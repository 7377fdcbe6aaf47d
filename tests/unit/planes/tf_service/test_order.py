from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from tfhet.errors import ClusterError
from tfhet.planes.tf_service import Order

ORDER = Order("127.0.0.2:6000", 3, ("algo-2", "algo-3"), ("jpeg", "tone"))


@pytest.mark.parametrize("order", [ORDER, Order("algo-1:1"), Order("a:1", native=())])
def test_order_survives_json(order):
    assert Order.parse(json.loads(json.dumps(asdict(order)))) == order


@pytest.mark.parametrize(
    "change",
    [
        *({"workers": value} for value in (None, -1, True)),
        *({"data_hosts": value} for value in ("algo-2", [1])),
        *({"dispatcher": value} for value in ("algo-2", "algo-2:x", ":6000", "algo-2:0", None)),
        *({"native": value} for value in ("tone", [1])),
    ],
)
def test_wrong_order_is_refused_with_its_field(change):
    (name,) = change
    with pytest.raises(ClusterError, match=f"tf_service: `{name}"):
        Order.parse({**asdict(ORDER), **change})

"""Instance types with their CPUs, memory, GPUs and network, and prices with their source.

from tfhet import catalogue

catalogue.instance("ml.g5.xlarge").vcpus                    # 4
catalogue.price("c5.18xlarge", "us-east-1")                 # a Price, or None where none is known
catalogue.default().common_market(["ml.g5.xlarge", "ml.c5.large"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.catalogue.catalogue import (
        AWS_POST,
        REGION,
        Catalogue,
        default,
        instance,
        names,
        own_path,
        price,
        prices,
        refreshed_path,
        shipped,
    )
    from tfhet.catalogue.instance_type import Instance, InstanceGroup
    from tfhet.catalogue.market_price import EC2, MARKETS, TRAINING, Price
    from tfhet.catalogue.overview import COLUMNS, listing, notes, shown
    from tfhet.catalogue.price_list import refresh

__all__ = [
    "AWS_POST",
    "COLUMNS",
    "EC2",
    "MARKETS",
    "REGION",
    "TRAINING",
    "Catalogue",
    "Instance",
    "InstanceGroup",
    "Price",
    "default",
    "instance",
    "listing",
    "names",
    "notes",
    "own_path",
    "price",
    "prices",
    "refresh",
    "refreshed_path",
    "shipped",
    "shown",
]

lazy.names_on_demand(
    __name__,
    {
        "catalogue": "AWS_POST REGION Catalogue default instance names own_path price prices refreshed_path shipped",
        "instance_type": "Instance InstanceGroup",
        "overview": "COLUMNS listing notes shown",
        "market_price": "EC2 MARKETS TRAINING Price",
        "price_list": "refresh",
    },
)

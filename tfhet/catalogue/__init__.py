"""Instance types with their CPUs, memory, GPUs and network, and prices with their source.

from tfhet import catalogue

known = catalogue.default()
known.instance("ml.g5.xlarge").vcpus                    # 4
known.price("c5.18xlarge", "us-east-1")                 # a Price, or None where none is known
known.common_market(["ml.g5.xlarge", "ml.c5.large"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.catalogue.catalogue import AWS_POST, REGION, Catalogue, default, shipped
    from tfhet.catalogue.instance_type import EC2, MARKETS, TRAINING, Instance, InstanceGroup, Price
    from tfhet.catalogue.node import NAME, REGION_NAME, Kind, Node, matching, named, number, one_of, read_text, whole
    from tfhet.catalogue.price_list import refresh

__all__ = ["AWS_POST", "EC2", "MARKETS", "NAME", "REGION", "REGION_NAME", "TRAINING", "Catalogue", "Instance"]
__all__ += ["InstanceGroup", "Kind", "Node", "Price", "default", "matching", "named", "number", "one_of"]
__all__ += ["read_text", "refresh", "shipped", "whole"]

lazy.names_on_demand(__name__)

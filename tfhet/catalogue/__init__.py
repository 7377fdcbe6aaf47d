"""Instance types with their CPUs, memory, GPUs and network, and prices with their source.

from tfhet import catalogue

known = catalogue.default()
known.instance("ml.g5.xlarge").vcpus                    # 4
known.price("c5.18xlarge", "us-east-1")                 # a Price, or None where none is known
known.common_market(["ml.g5.xlarge", "ml.c5.large"])
"""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.catalogue.catalogue import AWS_POST, REGION, Catalogue, default, shipped
    from tfhet.catalogue.instance_type import EC2, MARKETS, TRAINING, Instance, InstanceGroup, Price
    from tfhet.catalogue.price_list import refresh
    from tfhet.catalogue.training_rate import TrainingRate, training_rates


lazy.names_on_demand(__name__)

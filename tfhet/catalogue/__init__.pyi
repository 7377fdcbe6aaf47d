from .catalogue import (
    AWS_POST as AWS_POST,
    REGION as REGION,
    Catalogue as Catalogue,
    default as default,
    shipped as shipped,
)
from .instance_type import (
    EC2 as EC2,
    MARKETS as MARKETS,
    TRAINING as TRAINING,
    Instance as Instance,
    InstanceGroup as InstanceGroup,
    Price as Price,
)
from .price_list import refresh as refresh

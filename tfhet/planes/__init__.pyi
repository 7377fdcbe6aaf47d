from . import cpus as cpus
from .costs import (
    CostFile as CostFile,
    MovingCost as MovingCost,
    PlaneCosts as PlaneCosts,
    VcpuCost as VcpuCost,
    WireCost as WireCost,
    own_path as own_path,
)
from .distribution import distribute as distribute
from .feed.loader import Loader as Loader
from .hooks import on_training_data as on_training_data
from .plane import DataPlane as DataPlane, LauncherSide as LauncherSide, Outlets as Outlets
from .process import with_malloc_tunables as with_malloc_tunables
from .reader import Delivery as Delivery, RankSide as RankSide, Reader as Reader
from .reading import batches as batches
from .registry import (
    AUTO as AUTO,
    PREFERRED as PREFERRED,
    candidates as candidates,
    chosen as chosen,
    get as get,
    kind_of as kind_of,
    kinds as kinds,
    names as names,
)
from .tensorflow_noise import is_noise as is_noise, without_noise as without_noise

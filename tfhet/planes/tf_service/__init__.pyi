from .costs import (
    CLIENT as CLIENT,
    DEFAULT as DEFAULT,
    DTYPES as DTYPES,
    PLAIN as PLAIN,
    PREFIX as PREFIX,
    RATE as RATE,
    RATIO as RATIO,
    WORKER as WORKER,
    Moved as Moved,
)
from .fleet import Fleet as Fleet
from .plane import TF_SERVICE as TF_SERVICE
from .settings import Order as Order, ServiceSettings as ServiceSettings
from .transport import Transport as Transport
from .wire import Wire as Wire

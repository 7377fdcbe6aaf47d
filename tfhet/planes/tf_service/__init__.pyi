from .fleet import Fleet as Fleet
from .order import Order as Order
from .plane import TF_SERVICE as TF_SERVICE
from .settings import ServiceSettings as ServiceSettings
from .transport import Transport as Transport
from .wire import Wire as Wire

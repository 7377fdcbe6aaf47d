from .engine import whole_engine as whole_engine
from .fleet import Fleet as Fleet
from .plane import TF_SERVICE as TF_SERVICE
from .settings import Order as Order, ServiceSettings as ServiceSettings
from .transport import Transport as Transport
from .wire import Wire as Wire

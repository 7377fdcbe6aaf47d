from .engine import whole_engine as whole_engine
from .fleet import Fleet as Fleet
from .launcher_side import Order as Order, ServiceSettings as ServiceSettings
from .plane import TF_SERVICE as TF_SERVICE
from .transport import Transport as Transport
from .wire import Wire as Wire

from .driver import alone as alone, alone_variables as alone_variables
from .execution import Execution as Execution, executed as executed
from .leftovers import end_marked as end_marked
from .plane import RAY as RAY
from .private import is_dataset as is_dataset, prefixes as prefixes

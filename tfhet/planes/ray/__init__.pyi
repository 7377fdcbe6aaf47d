from .driver import Execution as Execution, alone as alone, alone_variables as alone_variables, executed as executed
from .plane import RAY as RAY
from .private import is_dataset as is_dataset, prefixes as prefixes
from .start import MARK as MARK, end_marked as end_marked

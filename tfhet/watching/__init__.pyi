from .command import WatchedCommand as WatchedCommand, new_folder as new_folder
from .handle import Watch as Watch, watch as watch
from .verdict import verdict as verdict

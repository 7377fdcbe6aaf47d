from .command import new_folder as new_folder, watch_command as watch_command
from .handle import Watch as Watch, watch as watch
from .verdict import verdict as verdict

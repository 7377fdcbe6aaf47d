from .command import new_folder as new_folder, watch_command as watch_command
from .verdict import verdict as verdict

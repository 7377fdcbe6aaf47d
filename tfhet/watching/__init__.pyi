from .command import WatchedCommand as WatchedCommand, new_folder as new_folder
from .handle import Watch as Watch, watch as watch
from .trial import TrialResult as TrialResult, lines as lines, patch_of as patch_of, run_trial as run_trial
from .verdict import verdict as verdict

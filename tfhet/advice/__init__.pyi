from .finding import Finding as Finding, sentence as sentence, sentences as sentences
from .input_bound import (
    INPUT_BOUND_PCT as INPUT_BOUND_PCT,
    Diagnosis as Diagnosis,
    InputState as InputState,
    next_commands as next_commands,
    of_run as of_run,
    paragraph as paragraph,
    peaks as peaks,
    profile_command as profile_command,
    state_by_wait as state_by_wait,
)
from .no_reads import unread as unread
from .pipeline import of_pipeline as of_pipeline
from .plan import of_plan as of_plan
from .training_job import (
    HostUtilisation as HostUtilisation,
    ObservedJob as ObservedJob,
    of_training_job as of_training_job,
)

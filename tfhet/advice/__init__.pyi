from .finding import Finding as Finding, sentence as sentence, sentences as sentences
from .input_bound import (
    Diagnosis as Diagnosis,
    InputState as InputState,
    of_run as of_run,
    paragraph as paragraph,
    peaks as peaks,
    state_by_wait as state_by_wait,
)
from .next_command import next_commands as next_commands, profile_command as profile_command
from .pipeline import of_pipeline as of_pipeline
from .plan import of_plan as of_plan
from .training_job import (
    HostUtilisation as HostUtilisation,
    ObservedJob as ObservedJob,
    of_training_job as of_training_job,
)

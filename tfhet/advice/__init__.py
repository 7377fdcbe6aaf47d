"""Advice from a profile, a plan, a run or a training job: whether it waits for its input, and what to do.

    from tfhet import advice
    from tfhet.record import RunSummary

    diagnosis = advice.of_run(RunSummary(wait_pct=42.0))
    print(diagnosis.state, diagnosis.verdict.kind)
    print(advice.paragraph(diagnosis))

`of_pipeline`, `of_plan`, `of_run` and `of_training_job` make findings; `sentence` and `paragraph` put them in words.
"""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.advice.finding import Finding, sentence, sentences
    from tfhet.advice.input_bound import Diagnosis, InputState, of_run, paragraph, peaks, state_by_wait
    from tfhet.advice.next_command import next_commands, profile_command
    from tfhet.advice.pipeline import of_pipeline
    from tfhet.advice.plan import of_plan
    from tfhet.advice.training_job import HostUtilisation, ObservedJob, of_training_job

lazy.names_on_demand(__name__)

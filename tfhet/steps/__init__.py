"""The steps of one rank: where their time goes, in the built-in trainer and in any script.

from tfhet import steps

with steps.step() as step:      # optional, in a script that reads by tfhet.distribute: where a step begins and ends
    step.loss = train(batch)
"""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.steps.callback import StepCallback
    from tfhet.steps.declared import facts
    from tfhet.steps.meter import Journal, Meter
    from tfhet.steps.note import Note, NotedLoader
    from tfhet.steps.script_steps import ScriptSteps, step

lazy.names_on_demand(__name__)

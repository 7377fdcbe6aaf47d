from .callback import MetricAverageCallback as MetricAverageCallback, StepCallback as StepCallback
from .continued import continue_in_keras as continue_in_keras
from .declared import examples_in_epoch as examples_in_epoch, facts as facts
from .meter import Journal as Journal, Meter as Meter
from .note import Note as Note, NotedLoader as NotedLoader
from .script_steps import ScriptSteps as ScriptSteps, step as step

from .callback import MetricAverageCallback as MetricAverageCallback, StepCallback as StepCallback
from .continued import continue_in_keras as continue_in_keras
from .declared import examples_in_epoch as examples_in_epoch, facts as facts
from .finder import TRAINING as TRAINING, VALIDATION as VALIDATION, Moment as Moment
from .meter import Journal as Journal, Meter as Meter
from .note import Note as Note, NotedLoader as NotedLoader
from .noted import NotedDataset as NotedDataset
from .phases import Phase as Phase, Phases as Phases
from .script_steps import ScriptSteps as ScriptSteps, step as step

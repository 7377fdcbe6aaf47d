from .agreement import Agreement as Agreement, disagreement as disagreement
from .asked import plan_of as plan_of
from .candidate import Candidate as Candidate, PlanLimits as PlanLimits, Space as Space
from .ceiling import Layout as Layout, Resource as Resource, Where as Where
from .decision import Plan as Plan, make_plan as make_plan
from .host import ClusterShape as ClusterShape, HostType as HostType
from .measured_run import MeasuredRun as MeasuredRun
from .memory import EBS as EBS, Amount as Amount, MemoryNeed as MemoryNeed, Misfit as Misfit
from .prediction import Prediction as Prediction, best_layout as best_layout, predict as predict
from .workload import CutCost as CutCost, PipelineCost as PipelineCost, Trainer as Trainer, Workload as Workload

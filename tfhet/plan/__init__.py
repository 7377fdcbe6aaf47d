"""From measurements and prices to a cluster, a cut and a decision.

    from tfhet import planes, plan

    stages = plan.CutCost("stages", 5, plan.Interval(900, 880, 930), plan.Interval(1, 1, 2), 3096, "uint8")
    trainer = plan.Trainer({"A100": plan.Interval(70, 68, 73)}, batch_size=1024)
    workload = plan.Workload(plan.PipelineCost((stages,)), trainer, planes.get("local").costs())
    cluster = plan.ClusterShape(plan.HostType("ml.p4d.24xlarge", 96, 8, "A100", 400))
    found = plan.predict(workload, cluster, plan.Layout())
    print(found.step_s, found.binding.value)

The room names no data plane: it takes one as a value, with its costs (`planes.PlaneCosts`) and its words.
"""

from typing import TYPE_CHECKING

from tfhet import lazy
from tfhet.record import Interval

if TYPE_CHECKING:
    from tfhet.plan.candidate import Candidate, PlanLimits, Space
    from tfhet.plan.ceiling import Resource, Where
    from tfhet.plan.decision import Plan, make_plan
    from tfhet.plan.host import ClusterShape, HostType
    from tfhet.plan.prediction import Layout, Prediction, best_layout, predict
    from tfhet.plan.workload import CutCost, PipelineCost, Trainer, Workload

lazy.names_on_demand(__name__)

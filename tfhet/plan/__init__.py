"""From measurements and prices to a cluster, a cut and a decision.

    from tfhet import plan, planes, record

    stages = plan.CutCost("stages", 5, record.Interval(900, 880, 930), record.Interval(1, 1, 2), 3096, "uint8")
    trainer = plan.Trainer({"A100": record.Interval(70, 68, 73)}, batch_size=1024)
    workload = plan.Workload(plan.PipelineCost((stages,)), trainer, planes.get("local").costs())
    cluster = plan.ClusterShape(plan.HostType("ml.p4d.24xlarge", 96, 8, "A100", 400))
    found = plan.predict(workload, cluster, plan.Layout())
    print(found.step_s, found.binding.value)

The room names no data plane: it takes one as a value, with its costs (`planes.PlaneCosts`) and its words.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)

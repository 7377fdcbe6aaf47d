"""The CPU cost of an input pipeline, part by part, and the changes that would reduce it most.

    from tfhet import Pipeline, SyntheticSource, profile

    pipeline = Pipeline(SyntheticSource(10_000, 16), "dilate(3); rescale()", batch_size=128)
    found = profile.measure("mine", profile.parts_of_pipeline(pipeline), profile.Effort(budget_s=10.0))
    for index, cost in enumerate(found.costs):
        print(cost.name, found.us(index), "us per example", cost.bytes_per_example, "bytes")

`parts_of_dataset` takes any tf.data.Dataset instead. `tfhet profile` is the same on the command line.
"""

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from tfhet.profile.anatomy import Anatomy, anatomy_of
    from tfhet.profile.handed_over import measure_target
    from tfhet.profile.parts import PipelinePart, parts_of_dataset, parts_of_pipeline
    from tfhet.profile.result import PYTHON, RAY, Cost, Profile
    from tfhet.profile.rounds import Effort, measure
    from tfhet.profile.script import measure_script
    from tfhet.profile.target import load, makes_ray

lazy.names_on_demand(__name__)

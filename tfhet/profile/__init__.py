"""The CPU cost of an input pipeline, part by part, and the changes that would reduce it most.

    from tfhet import Pipeline, SyntheticSource, profile

    pipeline = Pipeline(SyntheticSource(10_000, 16), "dilate(3); rescale()", batch_size=128)
    found = profile.measure("mine", profile.parts_of_pipeline(pipeline), profile.Effort(budget_s=10.0))
    for index, cost in enumerate(found.costs):
        print(cost.name, found.us(index), "us per example", cost.bytes_per_example, "bytes")

`parts_of_dataset` takes any tf.data.Dataset, and `measure_native` measures a pipeline that runs natively, without
TensorFlow. `tfhet profile` is the command.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)

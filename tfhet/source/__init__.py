"""Sources: where the records of a pipeline come from. Every example has an id from here on.

    from tfhet.source import SyntheticSource, TFRecordSource

    source = TFRecordSource.from_directory("/opt/ml/input/data/train")  # what `tfhet convert` wrote
    source = SyntheticSource(examples=10_000, splits=16)                # noise, for measurements

The modules `digits` and `photos` write demonstration data.
"""

from tfhet import extras

__getattr__, __dir__, __all__ = extras.attach(__name__, __file__)

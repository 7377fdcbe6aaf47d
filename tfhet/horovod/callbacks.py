"""Callbacks of `model.fit` with Horovod: of Keras 3, or Horovod's own under Keras 2."""

from tfhet.horovod.keras_version import HAS_KERAS_3
from tfhet.steps import MetricAverageCallback as MetricAverageCallback

if HAS_KERAS_3:
    from tfhet.horovod.keras_3_callbacks import (
        BroadcastGlobalVariablesCallback as BroadcastGlobalVariablesCallback,
        LearningRateScheduleCallback as LearningRateScheduleCallback,
        LearningRateWarmupCallback as LearningRateWarmupCallback,
    )
else:
    from horovod.tensorflow.keras.callbacks import (  # type: ignore[no-redef]
        BroadcastGlobalVariablesCallback as BroadcastGlobalVariablesCallback,
        LearningRateScheduleCallback as LearningRateScheduleCallback,
        LearningRateWarmupCallback as LearningRateWarmupCallback,
    )

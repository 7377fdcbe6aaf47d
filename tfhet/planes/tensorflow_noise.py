"""Lines of TensorFlow's that look like errors and say nothing, each with the reason."""

from __future__ import annotations

import re

_NOISE = re.compile(
    # TensorFlow 2.14 to 2.17 without a GPU register the CUDA plug-ins twice (tensorflow#62075).
    r"Unable to register cu(DNN|FFT|BLAS) factory"
    # The cost estimate of a convolution whose batch size is not known; a kilobyte a line, hundreds of them.
    r"|op_level_cost_estimator.cc:\d+\] Error in PredictCost"
    r"|All log messages before absl::InitializeLog"
    # The end of an epoch of a served data set is reported as a cancelled read.
    r"|tf_data_service.*Cancelled|OUT_OF_RANGE: End of sequence"
    # A served data set without autotuning says so each time that it asks for tasks: 30 lines a second.
    r"|tf.data Model is null in DataServiceIteratorContext"
)


def is_noise(line: str) -> bool:
    """Whether a line that a child process has printed can be left out of the log."""
    return _NOISE.search(line) is not None

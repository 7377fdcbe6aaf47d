from __future__ import annotations

import pytest

from tfhet.planes.tensorflow_process import is_noise


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-21 05:26:10: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] "
        "Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already",
        "W tensorflow/core/grappler/costs/op_level_cost_estimator.cc:699] Error in PredictCost() for the op: op: ...",
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "W tensorflow/core/framework/local_rendezvous.cc:404] Local rendezvous: OUT_OF_RANGE: End of sequence",
        "W0000 data_service_client.cc:450] Failed to heartbeat to dispatcher from iteration client id 3000. Dispatcher",
        "W0000 data_service_client.cc:93] Failed to release iteration client id: UNAVAILABLE: Failed to release",
    ],
)
def test_lines_that_mean_nothing_are_noise(line):
    assert is_noise(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ValueError: something",
        "[tfhet] step=10 epoch=0 step_ms=4.0",
        "W tensorflow: OUT_OF_RANGE: read 3 of 5 bytes",
        "E tensorflow: UNAVAILABLE: failed to connect to all addresses",
    ],
)
def test_all_others_are_not(line):
    assert not is_noise(line)

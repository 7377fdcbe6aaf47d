"""Which lines that TensorFlow has printed are noise."""

from __future__ import annotations

import os
import sys

import pytest

from tfhet.planes.tensorflow_noise import is_noise, without_noise

AT = "2026-11-23 05:45:41.589315: "
IMPL = "tensorflow/core/data/service/dispatcher_impl.cc"
CLIENT = f"{AT}W tensorflow/core/data/service/client/data_service_client.cc"
WORKER = f"{AT}W tensorflow/core/data/service/worker_impl.cc"
NEW = "I0000 00:00:1795413455.396485    5634 "
CUDA = "external/local_tsl/tsl/cuda/cudart_stub.cc:31"
NO_CUDA = f"{AT}I {CUDA}] Could not find cuda drivers on your machine, GPU will not be used."
NO_DRIVER = "E0000 00:00:1795927054.829458   29778 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error"


@pytest.mark.parametrize(
    "before", ["", "[dispatcher] ", "[algo-2/0] [worker-0] ", "[1,mpirank:0,algo-1]<stdout>:[algo-1/0] "]
)
@pytest.mark.parametrize(
    "line",
    [
        f"{AT}I tensorflow/core/util/port.cc:113] oneDNN custom operations are on. You may see slightly different",
        f"{NEW}port.cc:153] oneDNN custom operations are on. You may see slightly different numerical results due to",
        f"{AT}I tensorflow/core/platform/cpu_feature_guard.cc:182] This TensorFlow binary is optimized to use "
        "available CPU instructions in performance-critical operations.",
        "To enable the following instructions: AVX2 AVX512F AVX512_VNNI AVX512_BF16 FMA, in other operations, rebuild "
        "TensorFlow with the appropriate compiler flags.",
        f"{AT}E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN factory: "
        "Attempting to register factory for plugin cuDNN when one has already been registered",
        f"{AT}E external/local_xla/xla/stream_executor/cuda/cuda_blas.cc:1515] Unable to register cuBLAS factory: "
        "Attempting to register factory for plugin cuBLAS when one has already been registered",
        f"{AT}W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT",
        f"{AT}W tensorflow/core/grappler/costs/op_level_cost_estimator.cc:699] Error in PredictCost() for the op: x",
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        f"{AT}W tensorflow/core/framework/local_rendezvous.cc:404] Local rendezvous is aborting with status: "
        "OUT_OF_RANGE: End of sequence",
        f"{AT}W tensorflow/core/kernels/data/experimental/data_service_dataset_op.cc:281] tf.data Model is null in "
        "DataServiceIteratorContext. Ignoring.",
        f"{CLIENT}:450] Failed to heartbeat to dispatcher from iteration client id 3000. Dispatcher address: 127.0.0.3",
        f"{CLIENT}:93] Failed to release iteration client id: UNAVAILABLE: Failed to release iteration client",
        f"{AT}I {IMPL}:229] Attempting to restore dispatcher state from journal in /opt/ml/tfhet/journal",
        f"{AT}I {IMPL}:236] No journal found. Starting dispatcher from new state.",
        f"{AT}I tensorflow/core/data/service/server_lib.cc:82] Started tf.data DispatchServer running at 0.0.0.0:40247",
        f"{AT}I tensorflow/core/data/service/server_lib.cc:203] Data transfer server started at 0.0.0.0:40247 for "
        "protocol tfhet-43783fa0e476c499 for worker 127.0.0.1:33593",
        f"{NEW}data_service_client.cc:349] Successfully started client for data transfer protocol 'tfhet-43783fa0e476'",
        f"{NEW}server_lib.cc:100] Shut down WorkerServer server running at port 42993",
        f"{WORKER}:183] Worker registered with dispatcher running at algo-2:6000",
        f"{AT}W {IMPL}:1319] Error updating the optimal number of workers metric in tf.data service AutoScaler: I",
        f"{AT}W {IMPL}:381] Failed to report processing time for Iteration 2000 and worker address 127.0.0.2:35541 to "
        "tf.data service AutoScaler: INVALID_ARGUMENT: Cannot update processing_time with a ZeroDuration or negative",
        f"{AT}W {IMPL}:1095] Failed to report target processing time for Iteration 2000 and consumer ID 3001 to "
        "tf.data service AutoScaler: INVALID_ARGUMENT: Cannot update target_processing_time with a ZeroDuration",
        f"{AT}W {IMPL}:761] Failed to remove consumer with ID 3001 for Iteration 2000 from tf.data service AutoScaler: "
        "NOT_FOUND: Consumer with ID 3001 not found",
        f"{AT}I tensorflow/core/data/service/grpc_util.cc:81] Failed to Worker heartbeat.: UNAVAILABLE: Failed to "
        "perform worker heartbeat: failed to connect to all addresses. Will retry in 109ms.",
        f"{WORKER}:575] Failed to send heartbeat to dispatcher: UNAVAILABLE: Failed to perform worker heartbeat",
        NO_CUDA,
        NO_DRIVER,
    ],
)
def test_noise_is_recognised(before: str, line: str) -> None:
    assert is_noise(before + line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ValueError: something",
        "[tfhet] step=10 epoch=0 step_ms=4.0",
        'protocol: "grpc"',
        f"{AT}W tensorflow/core/framework/op_kernel.cc:1839] OP_REQUIRES failed at mpi_ops.cc:515 : UNKNOWN: "
        "Horovod has been shut down. This was caused by an exception on one of the ranks",
        f"{AT}W tensorflow/core/framework/op_kernel.cc:1839] OP_REQUIRES failed at whole_file_read_ops.cc:116 : "
        "OUT_OF_RANGE: End of sequence in data/a.tfrecord",
        f"{AT}E tensorflow/core/data/service/worker_impl.cc:575] UNAVAILABLE: failed to connect to all addresses",
        f"{AT}I tensorflow/core/data/service/grpc_util.cc:81] Failed to get next split: UNAVAILABLE: Failed to "
        "get split: failed to connect to all addresses. Will retry in 129ms.",
        f"{AT}I tensorflow/core/common_runtime/gpu/gpu_device.cc:1929] Created device "
        "/job:localhost/replica:0/task:0/device:GPU:0",
        f"RuntimeError: the log says {AT}I tensorflow/core/util/port.cc:113] oneDNN custom operations are on.",
        "UnknownError: Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN",
        "tensorflow.python.framework.errors_impl.OutOfRangeError: End of sequence [Op:IteratorGetNext]",
    ],
)
def test_other_lines_are_kept(line: str) -> None:
    assert not is_noise(line) and not is_noise(f"[worker-0]{line}")


def test_missing_gpu_drivers_are_no_noise_with_gpus() -> None:
    assert not is_noise(NO_CUDA, gpus=1) and not is_noise(NO_DRIVER, gpus=1)


def test_server_configuration_is_noise() -> None:
    assert is_noise('[algo-2/0] [dispatcher] protocol: "grpc"') and is_noise("[worker-1] heartbeat_interval_ms: 30000")


def test_only_noise_of_a_block_is_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    noise = "2026-11-24 02:00:51.530794: I tensorflow/core/util/port.cc:113] oneDNN custom operations are on"
    with pytest.raises(OSError, match="broken"), without_noise():
        os.write(2, f"{noise}\na warning\n".encode())
        raise OSError("broken")
    print("after it", file=sys.stderr)
    assert capfd.readouterr().err == "a warning\nafter it\n"

"""Processes that run TensorFlow, whatever the plane: the noise that they print."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

_BEFORE = r"(\[[^\]]*\](<std\w+>:| ))*"
"""Places and processes, as launchers and mpirun put them before a line."""
_STAMP = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] (tensorflow|external)/\S*?|[IWE]0000 [\d:.]+ +\d+ )"
"""Time, severity, and the folder of the source file, in both forms that TensorFlow has."""
_NOISE = re.compile(
    rf"{_BEFORE}({_STAMP}("
    # Each process, as TensorFlow is loaded (2.15.1 and 2.21).
    r"\bport\.cc:\d+\] oneDNN custom operations are on"
    r"|\bcpu_feature_guard\.cc:\d+\] This TensorFlow binary is optimized to use available CPU instructions"
    r"|\bpy_utils\.cc:\d+\] TF-TRT Warning: Could not find TensorRT"
    # The CUDA plug-ins, which are registered twice (2.15.1; tensorflow#62075).
    r"|\bcuda_\w+\.cc:\d+\] Unable to register cu(DNN|FFT|BLAS) factory: Attempting to register factory for plugin "
    # The cost estimate of a convolution whose batch size is not known; a kilobyte a line, hundreds of them (2.15.1).
    r"|\bop_level_cost_estimator\.cc:\d+\] Error in PredictCost\(\) for the op: "
    # The end of an epoch of a served data set is reported as a cancelled read.
    r"|\bdata_service\w*\.cc:\d+\] .*Cancelled|\blocal_rendezvous\.cc:\d+\] .*: OUT_OF_RANGE: End of sequence$"
    # A data set that is served without autotuning, or whose dispatcher is started again: 30 and 10 lines/s (2.15.1).
    r"|\w+\.cc:\d+\] tf\.data Model is null in DataServiceIteratorContext"
    r"|\bdata_service_client\.cc:\d+\] Failed to (heartbeat to dispatcher from|release) iteration client id"
    # The servers of tf.data service begin and end, and count the workers that they might have (2.15.1 and 2.21).
    r"|\bdispatcher_impl\.cc:\d+\] (Attempting to restore dispatcher state from |No journal found\. Starting "
    r"|Started tf\.data service dispatcher with config: )"
    r"|\bserver_lib\.cc:\d+\] ((Started tf\.data |Shut down )\w+Server |Data transfer server started at )"
    r"|\bdata_service_client\.cc:\d+\] Successfully started client for data transfer protocol "
    # The error of a pipeline, which TensorFlow takes for one of the wire and asks for again (native/wire/refusal.h).
    r"|\bdata_service_client\.cc:\d+\] Failed to use alternative data transfer protocol "
    r"|\bworker_impl\.cc:\d+\] Worker registered with "
    r"|\bdispatcher_impl\.cc:\d+\] (Error updating the optimal number of workers metric in"
    r"|Failed to report (target )?processing time for Iteration \d+ and .* to"
    r"|Failed to remove consumer with ID \d+ for Iteration \d+ from) tf\.data service AutoScaler: "
    # A worker asks again, which takes a moment when its dispatcher is started again (2.15.1).
    r"|\bgrpc_util\.cc:\d+\] Failed to Worker heartbeat\.: UNAVAILABLE: .* Will retry in \d+ms\.$"
    r"|\bworker_impl\.cc:\d+\] Failed to send heartbeat to dispatcher: UNAVAILABLE: "
    # On hosts without GPUs; on others, the line says what is wrong (2.15.1 and 2.21).
    r"|(?P<no_gpu>\bcudart_stub\.cc:\d+\] Could not find cuda drivers on |\bcuda_\w+\.cc:\d+\] failed call to cuInit: )"
    r")|WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR$"
    r"|To enable the following instructions: .* rebuild TensorFlow with the appropriate compiler flags\.$)"
    # The configuration of a server, a line each (2.21).
    rf"|{_BEFORE}\[(dispatcher|worker-\d+)\] (protocol|work_dir|fault_tolerant_mode|"
    r"(job_gc|client|worker|dispatcher|heartbeat|data_transfer|snapshot)_\w+): (\"[^\"]*\"|\d+|true)$"
)
"""Lines that look like errors and are none, from their beginning."""


def is_noise(line: str, gpus: int = 0) -> bool:
    """Whether a screen can omit a line that a process has printed on a host with this number of GPUs."""
    found = _NOISE.match(line)
    return found is not None and not (gpus and found["no_gpu"])


@contextlib.contextmanager
def without_noise() -> Iterator[None]:
    """A block, such as the import of TensorFlow, whose lines on standard error follow at its end, without noise."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(terminal, 2)
            os.close(terminal)
            held.seek(0)
            sys.stderr.writelines(line for line in held if not is_noise(line))
            sys.stderr.flush()

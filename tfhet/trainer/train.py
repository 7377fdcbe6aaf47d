"""The built-in training script: what `python -m tfhet.trainer` and a launcher without `--train_script` run."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence

import tensorflow as tf

from tfhet.cluster import environment, host_paths
from tfhet.strategies import JobContext
from tfhet.trainer.build import build
from tfhet.trainer.settings import Settings
from tfhet.trainer.stop import STOP_CODE


def main(argv: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Runs the script; the exit code."""
    env = environment() if env is None else env
    logging.basicConfig(format="[tfhet] %(levelname)s: %(message)s")
    settings, job, paths = Settings.parse(argv), JobContext.from_env(env), host_paths(env)
    with contextlib.suppress(RuntimeError):  # TensorFlow runs in this process already, with the threads that it has
        tf.config.threading.set_intra_op_parallelism_threads(settings.threads or job.threads)
    training = build(settings, job, paths)
    try:
        training.run()
    finally:
        training.collective.shutdown()
    return STOP_CODE if training.was_stopped else 0

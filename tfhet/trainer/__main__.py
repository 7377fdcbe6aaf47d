"""`python -m tfhet.trainer`: the built-in training script, which a launcher without `--train_script` starts."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence

import tensorflow as tf

from tfhet.cluster import environment, host_paths
from tfhet.errors import TfhetError
from tfhet.process import answer_with_stack
from tfhet.strategies import JobContext
from tfhet.trainer.build import build
from tfhet.trainer.settings import Settings
from tfhet.trainer.training import STOP_CODE


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    answer_with_stack()
    logging.basicConfig(format="[tfhet] %(levelname)s: %(message)s")
    settings, job, paths = Settings.parse(argv), JobContext.from_env(env), host_paths(env)
    with contextlib.suppress(RuntimeError):  # TensorFlow runs in this process already, with the threads that it has
        tf.config.threading.set_intra_op_parallelism_threads(settings.threads or job.threads)
    training = build(settings, job, paths)
    try:
        training.run()
    except BaseException:
        with contextlib.suppress(ValueError):  # not the main thread
            # Python ends with the default action for signals: a stop would now make a failure look like one in order.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise
    finally:
        training.collective.shutdown()
    return STOP_CODE if training.was_stopped else 0


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:], environment())
    except TfhetError as error:
        print(f"[tfhet] error: {error}", file=sys.stderr, flush=True)
        raise SystemExit(error.exit_code) from None
    # Everything is written. Taking down TensorFlow and all of Python takes a second and more of CPU, which every host
    # of the job would wait for.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

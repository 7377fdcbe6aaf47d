"""`python -m tfhet.trainer`: the built-in training script, as the launcher starts it."""

from __future__ import annotations

import atexit
import os
import sys

from tfhet.errors import TfhetError
from tfhet.trainer.train import main

if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except TfhetError as error:
        print(f"[tfhet] error: {error}", file=sys.stderr, flush=True)
        raise SystemExit(error.exit_code) from None
    # All that was to be left is written. Taking down TensorFlow and all of Python takes a second and more of CPU, which
    # every host of the job would wait for.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

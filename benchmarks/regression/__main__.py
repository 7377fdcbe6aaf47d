"""`python -m benchmarks.regression [--base REV]`: exit code 1 if the working tree is slower, 77 without a base."""

import argparse
import signal
import sys

from benchmarks.regression.check import check
from tfhet.errors import TfhetError

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regression", description=__doc__)
    parser.add_argument("--base", metavar="REV", help="commit to compare with (default: merge base with main, HEAD~1)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # folders and processes are removed
    try:
        sys.exit(check(options.base))
    except TfhetError as error:
        print(f"python -m benchmarks.regression: {error}", file=sys.stderr)
        sys.exit(error.exit_code)

"""`python -m benchmarks.planes`."""

import sys

from benchmarks.planes.suite import SUITE
from tfhet.bench import run_suite

if __name__ == "__main__":
    sys.exit(run_suite(SUITE, sys.argv[1:], "python -m benchmarks.planes"))

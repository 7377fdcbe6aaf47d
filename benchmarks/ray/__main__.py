"""`python -m benchmarks.ray`."""

import sys

from benchmarks.ray.suite import SUITE
from tfhet.bench import run_suite

if __name__ == "__main__":
    sys.exit(run_suite(SUITE, sys.argv[1:], "python -m benchmarks.ray"))

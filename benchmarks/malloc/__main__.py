"""`python -m benchmarks.malloc`."""

import sys

from benchmarks.malloc.suite import SUITE
from tfhet.bench import run_suite

if __name__ == "__main__":
    sys.exit(run_suite(SUITE, sys.argv[1:], "python -m benchmarks.malloc"))

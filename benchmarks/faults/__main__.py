"""`python -m benchmarks.faults`."""

import sys

from benchmarks.faults.suite import SUITE
from tfhet.cli.bench import run_suite

if __name__ == "__main__":
    sys.exit(run_suite(SUITE, sys.argv[1:], "python -m benchmarks.faults"))

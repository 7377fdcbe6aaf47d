"""`python -m benchmarks.plan`."""

import sys

from benchmarks.plan.suite import SUITE
from tfhet.cli.bench import run_suite

if __name__ == "__main__":
    sys.exit(run_suite(SUITE, sys.argv[1:], "python -m benchmarks.plan"))

"""`python -m benchmarks.loader`."""

import sys

from benchmarks.loader.suite import SUITE
from tfhet.cli.bench import run_suite

if __name__ == "__main__":
    sys.exit(run_suite(SUITE, sys.argv[1:], "python -m benchmarks.loader"))

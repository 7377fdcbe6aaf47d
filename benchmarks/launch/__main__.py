"""`python -m benchmarks.launch`."""

import sys

from benchmarks.launch.suite import SUITE
from tfhet.cli.bench import run_suite

if __name__ == "__main__":
    sys.exit(run_suite(SUITE, sys.argv[1:], "python -m benchmarks.launch"))

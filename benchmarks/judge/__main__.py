"""`python -m benchmarks.judge`."""

import sys

from benchmarks.judge.judge import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

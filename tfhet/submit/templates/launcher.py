"""The SageMaker entry point: the same file on every host of every group."""

import sys

from tfhet.launch import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m tfhet.launch ARGUMENTS`: a launcher without a file of its own."""

import sys

from tfhet.launch import main

if __name__ == "__main__":
    sys.exit(main())

"""`python -m tfhet.container SPEC.json`: see `tfhet.container.container`."""

import sys

from tfhet.container.container import main

if __name__ == "__main__":
    main(sys.argv[1:])

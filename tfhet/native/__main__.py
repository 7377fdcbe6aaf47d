"""`python -m tfhet.native`: builds the compiled ops that are not there yet, and says which this machine can have.

`python -m tfhet.native wheel` builds them into the package, for every level of CPUs, and prints their folder.
"""

import sys

from tfhet import native

if __name__ == "__main__":
    if sys.argv[1:] == ["wheel"]:
        print(native.build_for_wheel())
    else:
        for name in native.names():
            print(f"{name}: {'ready' if native.available(name) else 'left out; plain TensorFlow does its work'}")

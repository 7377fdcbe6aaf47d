"""tfhet's launcher, with a stamp before and after it."""

from __future__ import annotations

import sys

from benchmarks.job_scripts.stamp import stamp
from tfhet.launch import main

if __name__ == "__main__":
    stamp("launcher_begins")
    code = main()
    stamp("launcher_ends")
    sys.exit(code)

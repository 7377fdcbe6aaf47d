"""A training script without TensorFlow that ends as it is told: HOW is done by rank RANK, all other ranks sleep.

raise       an exception
exit        exit code 3
sleep       nothing: it sleeps like the others
stubborn    sleeps, and takes no notice of SIGTERM
hungry      takes more and more memory
done        nothing, successfully; so do the others
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

from tfhet.cluster import environment
from tfhet.strategies import JobContext

parser = argparse.ArgumentParser()
parser.add_argument("--how", required=True)
parser.add_argument("--rank", type=int, default=0)
arguments = parser.parse_args()
rank = JobContext.from_env(environment()).rank
print(f"training rank={rank} pid={os.getpid()}", flush=True)
if arguments.how == "done":
    sys.exit(0)
if rank == arguments.rank:
    if arguments.how == "raise":
        raise RuntimeError("the loss is not a number")
    if arguments.how == "exit":
        sys.exit(3)
    if arguments.how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = []
    while arguments.how == "hungry":
        held.append(b"x" * 2**26)
time.sleep(600)

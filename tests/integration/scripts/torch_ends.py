"""A loop of PyTorch's ranks that sum a gradient in each step; in the fifth, rank RANK ends as HOW says.

raise    an exception
exit     exit code 3
kill     SIGKILL
hang     a wait in its own code
absent   not in the loop: it does not even come to the meeting
done     nothing; all end after a few steps more
wait     nothing, and the loop goes on for minutes
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--how", required=True)
parser.add_argument("--rank", type=int, default=1)
parser.add_argument("--timeout_s", type=float, default=1800.0)
arguments = parser.parse_args()
is_it = int(os.environ["RANK"]) == arguments.rank


def stuck() -> None:
    time.sleep(600)


def end(code: int) -> None:
    """Without Python's own end, at which threads of PyTorch that still run raise SIGABRT, once in a while (2.13)."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if is_it and arguments.how == "absent":
    stuck()
dist.init_process_group("gloo", timeout=timedelta(seconds=arguments.timeout_s))
model = DistributedDataParallel(torch.nn.Linear(1000, 1000))
for step in range(10 if arguments.how == "done" else 3000):
    model(torch.ones(1, 1000)).sum().backward()
    if step == 0:
        print(f"training rank={dist.get_rank()} pid={os.getpid()}", flush=True)
    if step == 5 and is_it:
        if arguments.how == "raise":
            try:
                raise RuntimeError("the loss is not a number")
            except RuntimeError:
                sys.excepthook(*sys.exc_info())
                end(1)
        if arguments.how == "exit":
            end(3)
        if arguments.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if arguments.how == "hang":
            stuck()
    time.sleep(0.1)
dist.destroy_process_group()

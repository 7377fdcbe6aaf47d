"""The training script of `benchmarks.cluster`: one of the inputs, and an accelerator that uses time but no CPU.

It prints the metric lines and leaves the record of the built-in trainer, as far as the suite reads them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.job_scripts.inputs import Load
from tfhet.clock import SYSTEM
from tfhet.cluster import environment, host_paths
from tfhet.strategies import JobContext


def main(argv: Sequence[str]) -> None:
    """Takes the steps."""
    args = arguments(argv)

    from tfhet.record import RunFolder, StepTime
    from tfhet.steps import Meter
    from tfhet.trainer.emulated import EmulatedDevice

    env = environment()
    job = JobContext.from_env(env)
    channel = str(host_paths(env).channel("training")) if args.chain else ""
    batches = Load(args.input, channel, args.chain, args.batch_size).served()
    device, meter, began_s = EmulatedDevice(), Meter(), SYSTEM.monotonic()
    for step in range(1, args.steps_per_epoch + 1):
        asked_s = SYSTEM.monotonic()
        next(batches)
        wait_s = SYSTEM.monotonic() - asked_s
        device.begin(1e-3 * args.step_ms)
        now_s = SYSTEM.monotonic()
        meter.add(StepTime(now_s - began_s, min(wait_s, device.idle_s), args.batch_size))
        began_s = now_s
        if step % args.log_every == 0 and job.rank == 0:
            print(meter.line(step, 0, None), flush=True)
    if job.record_dir and job.rank == 0:
        RunFolder(Path(job.record_dir)).create().write_summary(meter.summary(job, batch_size=args.batch_size))


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parses the arguments. The launcher passes its own on, too."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--input", required=True)
    parser.add_argument("--chain", default="")
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--steps_per_epoch", type=int, required=True)
    parser.add_argument("--step_ms", type=float, required=True)
    parser.add_argument("--log_every", type=int, required=True)
    return parser.parse_known_args(argv)[0]


if __name__ == "__main__":
    main(sys.argv[1:])

"""A training script for `benchmarks.scaling` and `cluster`: a chain as the example writes it, `tfhet.distribute`, an
emulated step. With `--in_memory FORM` one batch, in either form, again and again: input that costs nothing.

It leaves the record that the built-in trainer leaves, as far as the suite reads it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tfhet.clock import SYSTEM
from tfhet.cluster import environment, host_paths
from tfhet.strategies import JobContext


def main(argv: Sequence[str]) -> None:
    """Takes the steps."""
    given = _arguments(argv)

    from benchmarks.job_scripts import plain
    from benchmarks.scaling.alone import datasets
    from tfhet import stages
    from tfhet.planes import distribute
    from tfhet.planes.tf_service import Transport
    from tfhet.record import RunFolder, RunSummary, StepTime
    from tfhet.steps import Meter
    from tfhet.trainer.emulated import EmulatedDevice

    env = environment()
    job = JobContext.from_env(env)
    channel = host_paths(env).channel("training")
    if given.in_memory:
        whole, *_ = datasets(channel, given.chain, given.in_memory, given.batch_size)
        data = whole.take(1).cache().repeat()
    else:
        files = sorted(str(path) for path in channel.glob("*.tfrecord*"))
        data = plain.dataset(files, (32, 32, 3), stages.parse(given.chain), given.batch_size)
    transport = Transport(compression="AUTO" if given.compression == "snappy" else None)
    batches = iter(distribute(data, transport=transport))
    device, meter, began_s = EmulatedDevice(), Meter(), SYSTEM.monotonic()
    for step in range(1, given.steps_per_epoch + 1):
        asked_s = SYSTEM.monotonic()
        next(batches)
        wait_s = SYSTEM.monotonic() - asked_s
        device.begin(1e-3 * given.step_ms)
        now_s = SYSTEM.monotonic()
        meter.add(StepTime(now_s - began_s, min(wait_s, device.idle_s), given.batch_size))
        began_s = now_s
        if step % given.log_every == 0 and job.rank == 0:
            print(meter.line(step, 0, None), flush=True)
    summary = RunSummary(
        job_id=job.job_id,
        mode=job.mode,
        steps=given.steps_per_epoch,
        batch_size=given.batch_size,
        ranks=job.size,
        step_ms=meter.step_ms(),
        wait_ms=meter.wait_ms(),
        wait_pct=meter.wait_pct(),
        examples_per_s=meter.examples_per_s(),
    )
    if job.record_dir and job.rank == 0:
        RunFolder(Path(job.record_dir)).create().write_summary(summary)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--chain", required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--steps_per_epoch", type=int, required=True)
    parser.add_argument("--step_ms", type=float, required=True)
    parser.add_argument("--log_every", type=int, default=10)
    parser.add_argument("--in_memory", default="")
    parser.add_argument("--compression", default="none")
    return parser.parse_known_args(argv)[0]


if __name__ == "__main__":
    main(sys.argv[1:])

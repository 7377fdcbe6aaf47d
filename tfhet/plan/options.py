"""The options of `tfhet plan`. They are a module of their own, since `tfhet submit plan` loads them too."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

DATA_FAMILIES = "ml.c5,ml.c6i,ml.c7i"
"""Families of data hosts that a plan compares unless others are named."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tfhet plan`."""

    def add(name: str, **more: Any) -> None:
        parser.add_argument(*_flags(name), **more)

    add("profile", type=Path, required=True, metavar="FILE", help="the record of: tfhet profile ... --json FILE")
    add("cluster", required=True, metavar="TEXT", help="today's: ml.g5.xlarge, or 1*ml.p4d.24xlarge+2*ml.c5.18xlarge")
    step = parser.add_mutually_exclusive_group(required=True)
    for name, what in (
        ("accelerator_ms", "a step of one rank, with data at hand"),
        ("accelerator_examples_per_s", "instead: what one accelerator takes"),
    ):
        step.add_argument(*_flags(name), metavar="X", help=f"{what}: 86, or 80..92")
    add("batch_size", type=int, metavar="N", help="of one rank (default: that of the profile)")
    add("trainer_cpu_ms", type=float, default=0.0, metavar="X", help="CPU of one rank's process, a step (default 0)")
    add("transport", type=Path, metavar="FILE", help="a record of tfhet bench transport, for the CPU of the wire")
    add("scaling", type=Path, metavar="FILE", help="a record of the scaling benchmark, for what a job takes over that")
    add("source_mb_per_s", type=float, metavar="X", help="that one host can read (default: no limit)")
    add("vcpu_speed", default="", metavar="TEXT", help="over the profiled CPU, like: ml.c5=1.1,ml.g5=0.9 (default 1)")
    add("dnn", metavar="TYPES", help="types or families that may train (default: today's family)")
    add("data", default=DATA_FAMILIES, metavar="TYPES", help="that may prepare data (default %(default)s)")
    add("max_hosts", type=int, default=8, metavar="N", help="of both groups (default %(default)s)")
    add("examples", type=float, metavar="N", help="of the whole training, all epochs: for a deadline or a budget")
    add("deadline_h", type=float, metavar="X", help="hours that it may take; more ranks are looked at then")
    add("budget_usd", type=float, metavar="X", help="that it may cost")
    add("spot_discount", type=float, default=0.0, metavar="PCT", help="off all prices (default: on demand)")
    add("interruption", type=float, metavar="PCT", help="by which spot lengthens training (default 5 with a discount)")
    add("region", metavar="NAME", help="of the prices (default us-east-1)")
    add("market", metavar="NAME", help="of the prices: `sagemaker training` or `ec2` (default: one with all types)")
    add("instances", type=Path, metavar="FILE", help="types and prices of your own, in YAML")
    add("json", type=Path, metavar="FILE", help="write the plan")


def _flags(name: str) -> list[str]:
    return list(dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"]))

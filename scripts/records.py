"""Says of each record in results/ whether the code that it measured has changed since, and makes records anew.

    python scripts/records.py                      lists them
    python scripts/records.py --remake             runs the commands of those that are old, one after the other
    python scripts/records.py --remake feed launch the commands of these, old or not

A record is made by its own command; those that simulate hosts need root. Make them with nothing else running, commit
the code before, and run `python scripts/figures.py` after. Before each, the load of what ran before has to go down.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfhet.bench.code import changed
from tfhet.record import Record, read_json

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 6 * 3600.0
"""Seconds that one record may take."""
MOST_LOAD, QUIET_LIMIT_S, LOOK_S = 0.5, 600.0, 5.0
"""Processes that want a CPU, in the mean of a minute, before a record is made; time for others to end."""
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}."


@dataclass(frozen=True)
class Aged:
    """A record, and what is known of the code that it measured."""

    path: Path
    record: Record
    changed: list[str] | None
    """Parts of the code that have changed since; None where the record does not name its code, or was made by another
    Python, whose digests differ."""

    @property
    def words(self) -> str:
        """The state of its code."""
        if self.changed is None:
            return "not noted"
        if self.changed:
            return f"changed since: {', '.join(f'`{part}`' for part in self.changed)}"
        return "as it is" if self.record.code.get("is_clean") else "as it is, not committed then"

    @property
    def refusal(self) -> str:
        """Why its command cannot make it anew; "" where it can."""
        words = self.record.command
        if "--more" in words:
            return "it was made in pieces: run its commands (`details.commands`) into another file"
        if f"results/{self.path.name}" not in words:
            return "its command wrote elsewhere"
        return "its command has a word for something of this machine" if "PYTHON" in words else ""

    @property
    def commit(self) -> str:
        return str(self.record.code.get("commit") or "")[:7]

    @property
    def command(self) -> list[str]:
        """The command that makes it, from the checkout, by this Python. Records of before 23 November name a suite of
        the proofs as one of `tfhet bench`."""
        words = [word for word in self.record.command if word != "--resume"]
        if words[:2] == ["tfhet", "bench"] and (ROOT / "benchmarks" / words[2]).is_dir():
            words = ["python", "-m", f"benchmarks.{words[2]}", *words[3:]]
        return [sys.executable, *(words[1:] if words[0] == "python" else ["-m", *words])]


def aged(root: Path = ROOT) -> Iterator[Aged]:
    """Every benchmark record in results/; summaries of runs are none."""
    for path in sorted((root / "results").glob("*.json")):
        if "figures" in read_json(path, "record"):
            record = Record.read(path)
            is_alike = str(record.machine.get("python")).startswith(PYTHON)
            yield Aged(path, record, changed(record.code, root) if is_alike else None)


def quiet() -> bool:
    """Waits until the machine is idle. Returns False when others still use it after QUIET_LIMIT_S."""
    end_s = time.monotonic() + QUIET_LIMIT_S
    while (load := os.getloadavg()[0]) > MOST_LOAD:
        if time.monotonic() > end_s:
            print(f"records: a load of {load:.1f}: end what else runs", file=sys.stderr)
            return False
        time.sleep(LOOK_S)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--remake", nargs="*", metavar="NAME", help="make these anew; without a name, all old ones")
    args = parser.parse_args()
    every = {each.path.stem: each for each in aged()}
    for name, each in every.items():
        print(f"{name:<30} {each.record.created[:10]}  {each.commit or '-':<8} {each.words}")
    if args.remake is None:
        return 0
    if unknown := [name for name in args.remake if name not in every]:
        parser.error(f"no record {', '.join(unknown)} in results/")
    failed = []
    for name in args.remake or [name for name, each in every.items() if each.changed or each.changed is None]:
        print(f"records: {name}: {every[name].refusal or ' '.join(every[name].record.command)}", flush=True)
        if every[name].refusal or not quiet():
            failed.append(name)
            continue
        try:
            subprocess.run(every[name].command, cwd=ROOT, timeout=LIMIT_S, check=True)
        except subprocess.SubprocessError as error:
            print(f"records: {name}: {error}", file=sys.stderr)
            failed.append(name)
    if failed:
        print(f"records: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Draws cases from a seed, runs each under `tfhet watch`, and compares the verdict with the expected one.

    PYTHONPATH=.:tests python -m planted.cases --seed 1 --each 2

The expectation of a case is written down with it, before any run.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from planted import scripts
from tfhet.advice import Diagnosis, InputState
from tfhet.record import RunFolder
from tfhet.watching.verdict import diagnosis

LIMIT_S = 240
BOUND, NOT = (InputState.BOUND,), (InputState.NOT, InputState.HARDLY)


@dataclass(frozen=True)
class Expected:
    """The answer that a case needs."""

    lever: str
    """Kind of the first advice."""
    names: str = ""
    """Words in the evidence or the first advice, such as the function that costs the time."""
    evidence: str = ""
    """Kind of a finding of the evidence, or `epoch starts` or `stalls` in the verdict."""
    states: tuple[InputState, ...] = BOUND

    def misses(self, found: Diagnosis) -> str:
        """Returns what is missing, or ""."""
        evidence = " ".join(each.clause for each in [*found.evidence, *found.levers[:1]])
        kinds = [each.kind for each in found.evidence]
        first = found.levers[0].kind if found.levers else "none"
        return ", ".join(
            words
            for words, is_missing in (
                (f"state is {found.state.value}", found.state not in self.states),
                (f"first advice is {first}", first != self.lever),
                (f"{self.names} is not named", self.names not in evidence),
                (
                    f"no {self.evidence}",
                    self.evidence not in [*kinds, ""] and self.evidence not in found.verdict.clause,
                ),
            )
            if is_missing
        )


@dataclass(frozen=True)
class Case:
    kind: str
    script: str
    expected: Expected
    slow_open_ms: int = 0
    ranks: int = 1
    parameters: dict[str, object] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        code = scripts.COMMON.replace("{compute_ms}", str(self.parameters["compute_ms"]))
        (folder / "train.py").write_text(code + self.script.format(**self.parameters) + scripts.MAIN)
        if self.slow_open_ms:
            _write_photos(folder / "photos")
            (folder / "slow.c").write_text(scripts.SLOW_OPEN)
            subprocess.run(["cc", "-shared", "-fPIC", "-o", "slow.so", "slow.c", "-ldl"], cwd=folder, check=True)

    def run(self, folder: Path) -> Diagnosis:
        """Runs the script under `tfhet watch` in an empty folder."""
        self.write(folder)
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
        program = [sys.executable]
        if self.slow_open_ms:
            env |= {"LD_PRELOAD": str(folder / "slow.so"), "SLOW_OPEN_MS": str(self.slow_open_ms)}
        if self.ranks > 1:
            program += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(self.ranks)]
        words = [sys.executable, "-m", "tfhet", "watch", "--out", "out", "--", *program, "train.py"]
        found = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S)
        if found.returncode:
            raise RuntimeError(f"{self.kind}: {found.stderr[-2000:]}")
        (folder / "verdict.txt").write_text(found.stderr)
        return diagnosis(RunFolder(folder / "out"))


def _write_photos(folder: Path) -> None:
    from PIL import Image

    for index in range(40):
        at = folder / "ab"[index % 2] / f"{index}.jpg"
        at.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 64), (6 * index, 90, 30)).save(at)


def draw(seed: int, each: int = 2) -> Iterator[Case]:
    """Yields `each` cases of each kind."""
    rng = random.Random(seed)
    for variant in range(each):
        is_odd = (variant + seed) % 2
        more = {"compute_ms": rng.randint(18, 28)}

        def case(kind: str, script: str, expected: Expected, *, more=more, **parameters: object) -> Case:
            fields = {name: parameters.pop(name) for name in ("slow_open_ms", "ranks") if name in parameters}
            return Case(kind, script, expected, **fields, parameters={**more, **parameters})

        own, disk = ("load_image", scripts.SLOW_DISK_OWN) if is_odd else ("pil_loader", scripts.SLOW_DISK)
        expected = Expected("wait_in_parallel", f"{own} in")
        yield case("slow disk", disk, expected, slow_open_ms=rng.randint(30, 60), batch=rng.choice((3, 4)))
        slow, ms = rng.randrange(2), rng.randint(12, 24)
        work = f"time.sleep({ms} / 1e3)" if is_odd else f"return sum(k * k for k in range({12_000 * ms}))"
        expected = Expected("slow_rank", f"rank {slow}", "ranks_apart")
        yield case("slow rank", scripts.SLOW_RANK, expected, ranks=2, slow=slow, work=work)
        expected = Expected("cheaper_code", "SaltAndPepper.__call__")
        pixels = 1000 * rng.randint(150, 300)
        yield case("transform", scripts.TRANSFORM, expected, pixels=pixels, count=rng.choice((96, 120)))
        workers = is_odd
        expected = Expected("few_workers" if workers else "no_workers", "to 2" if workers else "num_workers=")
        side, count = rng.randint(1100, 1500), rng.choice((120, 160))
        yield case("few workers", scripts.FEW_WORKERS, expected, workers=workers, side=side, count=count)
        threads = rng.choice((4, 8, 16))
        expected = Expected("opencv_threads", f"{threads} threads")
        yield case("OpenCV threads", scripts.OPENCV, expected, threads=threads, side=rng.randint(600, 1000))
        expected = Expected("cheaper_code", "pad_and_mask")
        yield case("collate", scripts.COLLATE, expected, length=1000 * rng.randint(80, 140))
        cache = scripts.COLD_CACHE_DISK if is_odd else scripts.COLD_CACHE
        shape = {"count": rng.choice((120, 160)), "decode_ms": rng.randint(15, 30), "epochs": rng.choice((5, 12))}
        yield case("cold cache", cache, Expected("warm_up", "", "waited_until", (*BOUND, *NOT)), **shape)
        val = {
            "compute_ms": rng.randint(30, 40),
            "count": rng.choice((60, 100)),
            "wait_ms": rng.randint(12, 30),
            "val_batch": rng.choice((1, 4)),
        }
        yield case("validation", scripts.VALIDATION, Expected("shorten_validation", "", "validation", NOT), **val)
        expected = Expected("restarted_workers", "", "epoch starts", (*BOUND, *NOT))
        yield case(
            "restarts", scripts.RESTARTS, expected, count=rng.choice((60, 80, 100)), init_ms=rng.randint(250, 700)
        )
        expected = Expected("little_prefetch", "", "stalls", (*BOUND, *NOT))
        yield case("stalls", scripts.STALLS, expected, slow_ms=rng.randint(500, 900), every=rng.choice((60, 80, 100)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=2, help="cases of each kind")
    parser.add_argument("--out", type=Path, default=None, help="keeps the folders of the cases here")
    parser.add_argument("--only", default="", help="kinds that contain these words")
    args = parser.parse_args()
    out, right, count = args.out or Path(tempfile.mkdtemp(prefix="planted-")), 0, 0
    for number, case in enumerate(draw(args.seed, args.each)):
        if args.only not in case.kind:
            continue
        folder = out / f"{number}-{case.kind.replace(' ', '-')}"
        folder.mkdir(parents=True)
        misses = case.expected.misses(case.run(folder))
        count, right = count + 1, right + (not misses)
        print(f"{case.kind}: {misses or 'right'}", flush=True)
    print(f"{right} of {count}; verdicts: {out}/*/verdict.txt")


if __name__ == "__main__":
    main()

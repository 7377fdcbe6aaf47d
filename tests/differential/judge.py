"""What "equal" means: the promises of `tfhet.distribute`, stated as a comparison of what ranks read with what one
process reads without tfhet.

With R ranks, W workers (0: ranks prepare their own data), batches of b examples, and B batches in a pass alone:

- *Validation*: in each pass, the examples of all ranks together are the examples of a pass alone, each as often. Every
  rank gets the same number of batches, in every pass.
- *Training*: every rank gets B // R batches in every pass. With one rank and at most one worker each pass is exactly a
  pass alone. Otherwise passes flow into each other, and these limits hold:
  - no example comes that a pass alone does not have;
  - over P passes each example comes P times, give or take 2;
  - examples that miss from the P passes, and those that come more often, are as many as are left over by a pass
    (B mod R batches, and the partial last batch of each further worker if the source is files) or are in flight;
  - in the first pass, as many examples come twice as other workers and ranks hold back.

In flight is what a rank has requested (2 + 2 prefetched batches, 1 in hand, one request per worker), and what a worker
holds: one batch ready, one in the making, and the row's own buffers (`Row.holds`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from differential.reading import FAILED, HUNG, PASSES, READ, REFUSED, Reading
from differential.row import TRAINING, Row

SPREAD = 2
RANK_HOLDS, WORKER_HOLDS = 5, 2
"""Batches."""


@dataclass(frozen=True)
class Shape:
    """A cluster."""

    hosts: int
    """Data hosts."""
    ranks: int

    def __str__(self) -> str:
        return f"data{self.hosts}_ranks{self.ranks}"


def problems(row: Row, shape: Shape, role: str, alone: Reading, ranks: Sequence[Reading]) -> list[str]:
    """The ways in which what all ranks read differs from what is read alone."""
    outcomes = {reading.outcome for reading in ranks}
    texts = sorted({reading.text for reading in ranks if reading.text})
    if REFUSED in outcomes and FAILED not in outcomes:
        text = ranks[0].text or texts[0]
        if not row.recipe:
            return [f"refused: {text}"]
        return [] if row.advice in text else [f"the refusal does not name {row.advice!r}: {text}"]
    if outcomes != {READ}:
        passes = [len(reading.passes) for reading in ranks]
        return [f"{'hung' if HUNG in outcomes else 'failed'} after {passes} passes: {texts}"]
    if len({len(reading.passes) for reading in ranks}) > 1:
        return ["ranks read different numbers of passes"]  # the other role has hung
    found = [f"element_spec {one.spec}, alone {alone.spec}" for one in ranks if one.spec != alone.spec][:1]
    judge = _training if role == TRAINING else _validation
    return found + judge(row, shape, alone, ranks)


def _validation(row: Row, shape: Shape, alone: Reading, ranks: Sequence[Reading]) -> list[str]:
    found = []
    counts = {tuple(reading.batches) for reading in ranks}
    if len(counts) > 1 or len(set(next(iter(counts)))) > 1:
        found.append(f"batches by rank and pass: {[reading.batches for reading in ranks]}")
    expected = Counter(alone.passes[0])
    for number, together in enumerate(_together(ranks)):
        if together != expected and not row.draws:
            found.append(f"pass {number}: {_difference(together, expected)}")
    return found


def _training(row: Row, shape: Shape, alone: Reading, ranks: Sequence[Reading]) -> list[str]:
    expected, together, batches = Counter(alone.passes[0]), _together(ranks), alone.batches[0]
    steps = batches // shape.ranks
    is_counted = shape.ranks > 1 or alone.cardinality >= 0 or row.steps
    found = []
    if is_counted and any(reading.batches != [steps] * PASSES for reading in ranks):
        found.append(f"batches by rank and pass: {[reading.batches for reading in ranks]}, {steps} expected")
    if foreign := sorted(set().union(*together) - set(expected)):
        found.append(f"{len(foreign)} examples that a pass alone does not have, such as {foreign[:3]}")
    if row.draws:
        return found
    if shape.ranks == 1 and (shape.hosts <= 1 or not is_counted):
        wrong = [f"pass {at}: {_difference(one, expected)}" for at, one in enumerate(together) if one != expected]
        return found + wrong
    size = max(row.batch, 1)
    left = batches - steps * shape.ranks + row.own_batches * (max(shape.hosts, shape.ranks) - 1)
    rank_holds = (RANK_HOLDS + shape.hosts if shape.hosts else 0) * size
    worker_holds = WORKER_HOLDS * size + row.holds
    flight = shape.ranks * rank_holds + shape.hosts * worker_holds
    total = sum(together, Counter())
    goal = Counter({example: count * PASSES for example, count in expected.items()})
    missing, surplus = goal - total, total - goal
    if missing.total() > PASSES * left * size + flight:
        found.append(f"{missing.total()} examples miss, of {goal.total()}; {PASSES * left * size + flight} may")
    if surplus.total() > flight + PASSES * left * size * (not shape.hosts):
        found.append(f"{surplus.total()} examples come too often, of {goal.total()}; {flight} may")
    if far := [one for one, count in goal.items() if abs(total[one] - count) > SPREAD * expected[one]]:
        found.append(f"{len(far)} of {len(goal)} examples come {[total[one] for one in far[:5]]} times")
    twice = (together[0] - expected).total()
    limit = (shape.ranks - 1) * rank_holds + max(shape.hosts - 1, 0) * (worker_holds + size) + left * size
    if twice > limit:
        found.append(f"{twice} of {expected.total()} examples of the first pass come twice; {limit} may")
    return found


def _together(ranks: Sequence[Reading]) -> list[Counter[str]]:
    """The examples of all ranks, by pass."""
    return [sum((Counter(reading.passes[at]) for reading in ranks), Counter()) for at in range(PASSES)]


def _difference(found: Counter[str], expected: Counter[str]) -> str:
    missing, more = expected - found, found - expected
    return f"of {expected.total()} examples {missing.total()} miss {list(missing)[:3]}, {more.total()} are too many"

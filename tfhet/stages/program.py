"""The program of a chain for images of one spec: calls of the compiled core, and stages of a user between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfhet import kernels
from tfhet.errors import UsageError
from tfhet.stages import randomness
from tfhet.stages.core_text import literal, node
from tfhet.stages.fusion import PlacedStage, Step, fuse
from tfhet.stages.spec import ImageSpec

Drawn = list[tuple[PlacedStage, dict[str, np.ndarray]]]


@dataclass(frozen=True)
class Segment:
    """Neighbouring steps that the core runs in one call; or one step of a stage that is not compiled."""

    steps: tuple[Step, ...]
    chain: kernels.Chain | None
    """None for a stage of a user."""
    salted: tuple[PlacedStage, ...]
    """The stages that draw, in the order of their salts."""
    _salts: dict[int, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    def salts(self, seed: int) -> np.ndarray:
        """Returns the salts of the stages that draw, uint64."""
        if (found := self._salts.get(seed)) is None:
            words = [randomness.salt(seed, each.stage.name, each.declared) for each in self.salted]
            found = self._salts.setdefault(seed, np.array(words, np.uint64))
        return found

    @property
    def stages(self) -> tuple[PlacedStage, ...]:
        return tuple(each for step in self.steps for each in step.stages)


@dataclass(frozen=True)
class Program:
    """A chain for images of one spec."""

    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, stages: Sequence[PlacedStage], source: ImageSpec, together: bool = True) -> Program:
        """Returns the program of stages in running order."""
        segments: list[Segment] = []
        run: list[Step] = []

        def end() -> None:
            if run:
                segments.append(segment(run))
                run.clear()

        for step in fuse(stages, source, together):
            if all(each.stage.is_compiled for each in step.stages):
                run.append(step)
            else:
                end()
                for each, spec in zip(step.stages, step.inputs, strict=True):
                    segments.append(Segment((Step((each,), spec),), None, ()))
        end()
        return cls(tuple(segments))

    def run(
        self,
        images: np.ndarray | Sequence[bytes],
        ids: np.ndarray | None,
        seed: int,
        epochs: np.ndarray,
        threads: int = 1,
        out: np.ndarray | None = None,
        wants_draws: bool = False,
    ) -> tuple[np.ndarray, Drawn]:
        """Returns the images and, if wanted, the parameters of each stage. Arguments as in `CompiledChain`."""
        found: Drawn = []
        for place, each in enumerate(self.segments):
            last = out if place == len(self.segments) - 1 else None
            if each.chain is None:
                images = _by_user(each.steps[0], images, ids, seed, epochs, found)
                continue
            draws = None
            if each.salted:
                assert ids is not None
                draws = kernels.Draws(ids, epochs.reshape(-1), each.salts(seed))
            drawn = np.zeros((len(images), each.chain.slots)) if wants_draws else None
            images = each.chain.run(images, draws, drawn=drawn, out=last, threads=threads)
            if drawn is not None:
                named = each.chain.named(drawn)
                numbers = {placed.declared: salt for salt, placed in enumerate(each.salted)}
                for placed in each.stages:
                    salt = numbers.get(placed.declared, -1)
                    found.append((placed, {name: value for (own, name), value in named.items() if own == salt}))
        if not isinstance(images, np.ndarray):
            raise UsageError("the chain has no stage that decodes the image files")
        if out is not None and images is not out:
            out[...] = images
            images = out
        return images, found


def _by_user(
    step: Step, images: Any, ids: np.ndarray | None, seed: int, epochs: np.ndarray, found: Drawn
) -> np.ndarray:
    """Runs a stage of a user on arrays."""
    (place,) = step.stages
    stage, parameters = place.stage, {}
    if stage.random:
        assert ids is not None
        parameters = stage.parameters(randomness.keys(seed, stage.name, place.declared, epochs, ids), step.input)
    found.append((place, parameters))
    made = stage.apply(images, parameters)
    if not isinstance(made, np.ndarray):  # of TensorFlow, which is installed then
        made = np.asarray(made)
    promised = place.output
    if made.dtype.name != promised.dtype or made.shape[3:] != (promised.channels,):
        stage.refuse(
            f"it promised {promised.dtype} with {promised.channels} channels but made {made.dtype} {made.shape}"
        )
    return made


def segment(steps: Sequence[Step]) -> Segment:
    """Returns steps as one call of the core."""
    placed = [each for step in steps for each in step.stages]
    salted = tuple(each for each in placed if each.stage.random)
    numbers = {each.declared: salt for salt, each in enumerate(salted)}
    written = []
    for step in steps:
        stages = " ".join(node(each.stage, salt=numbers.get(each.declared)) for each in step.stages)
        config = "".join(f" {name}={literal(value)}" for name, value in step.config().items())
        written.append(f"({step.kind}{config} stages=[{stages}])")
    return Segment(tuple(steps), kernels.Chain(" ".join(written)), salted)

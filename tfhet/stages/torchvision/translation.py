"""`tfhet.stages.from_torchvision`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tfhet.errors import UsageError
from tfhet.stages.call_syntax import text
from tfhet.stages.choice import OneOf
from tfhet.stages.compiled import CompiledChain, compile as compiled
from tfhet.stages.conversion import Rescale
from tfhet.stages.decoding import Decode
from tfhet.stages.stage import Stage
from tfhet.stages.torchvision.images import Images, Untranslatable, with_p
from tfhet.stages.torchvision.rules import CONTAINERS, KEEPS_PENDING, RULES, why_not

_PACKAGE = "torchvision.transforms."
_SHOWN = 120
"""Maximum characters of a transform in a message."""


class Remark(NamedTuple):
    """Something about one transform."""

    position: str
    """Index from 0, with the indices within nested transforms after dots: `2.0`."""
    transform: str
    reason: str

    def __str__(self) -> str:
        return f"{self.position} {self.transform}: {self.reason}"


@dataclass(frozen=True)
class Translation:
    """The stages of a torchvision transform, and how they differ from it."""

    stages: tuple[Stage, ...]
    notes: tuple[Remark, ...]
    """Translated transforms whose results or random numbers have another distribution."""
    untranslated: tuple[Remark, ...]
    """Transforms that were omitted; empty unless `partial` was set."""

    @property
    def text(self) -> str:
        """The stages as text, for `tfhet.stages.parse`."""
        return text(self.stages)

    def compile(self) -> CompiledChain:
        """Returns the stages as a function of images. float32 images have values from 0 to 1, as in torchvision."""
        return compiled(self.stages, float_range=(0.0, 1.0))

    def __str__(self) -> str:
        lines = [self.text]
        lines += [f"differs: {note}" for note in self.notes]
        return "\n".join([*lines, *(f"omitted: {each}" for each in self.untranslated)])


def from_torchvision(transform: Any, *, partial: bool = False, decode: bool = False) -> Translation:
    """Translates a torchvision transform into stages.

    Random transforms keep their distributions, not their draws: random numbers of stages derive from (seed, epoch, id).
    For deterministic transforms uint8 results equal those on PIL images, up to one level by rounding.

    Args:
        transform: `Compose` or `nn.Sequential` of `torchvision.transforms` or `torchvision.transforms.v2`, or one
            transform.
        partial: Whether transforms that cannot be translated are omitted and listed. If not, they raise an error.
        decode: Whether the chain takes the contents of image files: it begins with a `decode` whose pixels are those of
            torchvision's `default_loader`, which does not turn images by their Exif orientation.

    Returns:
        The stages, with notes on what differs.

    Raises:
        UsageError: Transforms cannot be translated, and `partial` is not set. The message lists all of them.
    """
    walk = _Walk()
    walk.visit(_placed(_parts(transform) or [transform], ""))
    walk.finish()
    if walk.untranslated and not partial:
        mistakes = [str(each) for each in walk.untranslated]
        raise UsageError(
            f"{len(mistakes)} of the transforms have no equal stages (partial=True omits them):\n  "
            + "\n  ".join(mistakes),
            mistakes=mistakes,
        )
    first = (Decode(upright=False, accurate=True),) if decode else ()
    return Translation((*first, *walk.stages), tuple(walk.notes), tuple(walk.untranslated))


def _parts(transform: Any) -> list[Any]:
    """Returns the transforms of a Compose or an nn.Sequential; none for another transform."""
    kind = type(transform)
    if kind.__module__.startswith(_PACKAGE) and kind.__name__ == "Compose":
        return list(transform.transforms)
    is_sequential = kind.__module__.startswith("torch.nn.") and kind.__name__ == "Sequential"
    return list(transform) if is_sequential else []


def _placed(transforms: Iterable[Any], before: str) -> Iterator[tuple[str, Any]]:
    """Yields transforms with their positions. before: position of their container with a dot, or ""."""
    for at, transform in enumerate(transforms):
        yield f"{before}{at}", transform


def _shown(transform: Any) -> str:
    words = " ".join(repr(transform).split())
    return words if len(words) <= _SHOWN else f"{words[: _SHOWN - 3]}..."


@dataclass
class _Walk:
    """Translates transforms one after the other."""

    images: Images = field(default_factory=Images)
    stages: list[Stage] = field(default_factory=list)
    notes: list[Remark] = field(default_factory=list)
    untranslated: list[Remark] = field(default_factory=list)
    resize: Remark | None = None
    """The transform behind `images.shorter`."""

    def visit(self, placed: Iterable[tuple[str, Any]]) -> None:
        """Translates transforms. placed: each with its position."""
        for position, transform in placed:
            if parts := _parts(transform):
                self.visit(_placed(parts, f"{position}."))
                continue
            made: Sequence[Stage] = ()
            try:
                made = self._stages_of(transform, position)
            except (Untranslatable, UsageError) as error:
                if str(error):  # "": the parts of a container are listed already
                    self.untranslated.append(Remark(position, _shown(transform), str(error)))
                self.images.size = None
            self.notes += [Remark(position, _shown(transform), note) for note in self.images.notes]
            self.images.notes = []
            self.stages += made

    def finish(self) -> None:
        """Adds what waits for another transform."""
        self._settle_resize()
        self._settle_float()

    def _stages_of(self, transform: Any, position: str) -> Sequence[Stage]:
        name = type(transform).__name__
        is_own = type(transform).__module__.startswith(_PACKAGE)
        keeps_resize, keeps_float = KEEPS_PENDING.get(name, (False, False)) if is_own else (False, False)
        if not keeps_resize:
            self._settle_resize()
        if not keeps_float:
            self._settle_float()
        if is_own and name in CONTAINERS:
            return self._chosen(transform, position)
        if not is_own or name not in RULES:
            raise Untranslatable(why_not(transform))
        made = RULES[name](transform, self.images)
        if self.images.shorter is None:
            self.resize = None
        elif self.resize is None:
            self.resize = Remark(position, _shown(transform), "")
        return made

    def _settle_resize(self) -> None:
        """Lists a Resize of the shorter side that no CenterCrop followed."""
        if self.resize is not None:
            why = "images keep their aspect and differ in size after it: put CenterCrop right after it, or give (h, w)"
            self.untranslated.append(self.resize._replace(reason=why))
        self.resize = self.images.shorter = None

    def _settle_float(self) -> None:
        """Adds the conversion to 0..1 that `normalize` does not include."""
        if self.images.is_due:
            self.stages.append(Rescale())
            self.images.is_due = False

    def _chosen(self, transform: Any, position: str) -> Sequence[Stage]:
        """Returns the stages of RandomApply and RandomChoice."""
        placed = list(_placed(transform.transforms, f"{position}."))
        if type(transform).__name__ == "RandomApply":
            branch = self._one(placed)
            return [] if branch is None else with_p(branch, transform.p)
        weights = transform.p or [1.0] * len(placed)
        branches = [(self._one([each]), weight / sum(weights)) for each, weight in zip(placed, weights, strict=True)]
        changing = [(branch, share) for branch, share in branches if branch is not None and share > 0.0]
        if not changing:
            return []
        total = sum(share for _, share in changing) if len(changing) < len(branches) else 1.0
        if len(changing) == 1:
            return with_p(changing[0][0], total)
        stages, shares = zip(*changing, strict=True)
        return with_p(OneOf(stages, tuple(float(share) for share in shares)), total)

    def _one(self, placed: Iterable[tuple[str, Any]]) -> Stage | None:
        """Returns the one stage of transforms within a container; None if they change nothing."""
        before = self.images.size, self.images.is_float, self.images.is_tensor
        inner = _Walk(Images(*before))
        inner.visit(placed)
        inner.finish()
        self.notes += inner.notes
        if inner.untranslated:
            self.untranslated += inner.untranslated
            raise Untranslatable
        if inner.images != Images(*before):
            raise Untranslatable("its transforms change size or dtype, which the stages of a choice keep")
        if len(inner.stages) > 1:
            raise Untranslatable(f"it applies {len(inner.stages)} stages together, and a choice of tfhet applies one")
        return inner.stages[0] if inner.stages else None

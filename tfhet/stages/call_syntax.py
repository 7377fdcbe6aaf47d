"""Stages as text, in call syntax like `dilate(size=3); rescale()`: read and written; and named chains of stages."""

from __future__ import annotations

import ast
import dataclasses
import typing
from collections.abc import Iterable

from tfhet.errors import UsageError, check_known
from tfhet.stages.registry import get, is_registered
from tfhet.stages.stage import Stage

_IMAGENET = "normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))"
"""Mean and standard deviation of ImageNet's training images."""

CHAINS = {
    # The augmentation of AWS's heterogeneous cluster example (TensorFlow, CIFAR-10), in its order.
    "aws-cifar": "dilate(3); gaussian_blur(11, 0.8); rescale(1/255);"
    " random_flip(horizontal=True); random_rotation(0.1); random_zoom(0.1)",
    # Mild enough that a small network still learns handwritten digits, which a flip or a large angle would confuse.
    "digits": "random_rotation(0.02); random_zoom(0.05); rescale()",
    "none": "rescale()",
    # From image files to the input of networks for ImageNet, in training and in evaluation.
    "imagenet-train": f"decode(); random_resized_crop(224, 224); random_flip(); {_IMAGENET}",
    "imagenet-jitter": "decode(); random_resized_crop(224, 224); random_flip(); color_jitter(0.4, 0.4, 0.4);"
    f" {_IMAGENET}",
    "imagenet-eval": f"decode(); resized_center_crop(224, 224, 256); {_IMAGENET}",
    "randaugment-224": f"decode(); random_resized_crop(224, 224); random_flip(); randaugment(2, 9); {_IMAGENET}",
}


def chain(name: str) -> tuple[Stage, ...]:
    """Returns a named chain's stages. Raises UsageError that lists the known chains."""
    check_known("chain", name, CHAINS)
    return parse(CHAINS[name])


def parse(text: str) -> tuple[Stage, ...]:
    """Returns the stages of a text like `"dilate(size=3); rescale()"`, or of the name of a chain. Stages are separated
    by `;` or new lines. Arguments are literals, or quotients of two as in `rescale(1/255)`, by name or in the order of
    the fields. Where a field holds stages, they are stages: `probability(posterize(4), 0.5)`, `one_of(posterize(4),
    solarize(128))`. Raises UsageError for unknown stages and arguments, listing the known ones."""
    if text.strip() in CHAINS:
        return chain(text.strip())
    try:
        calls = ast.parse("\n".join(line.strip() for line in text.split("\n"))).body
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"cannot read the stages {text!r}: {error}; write like {CHAINS['aws-cifar']!r}") from None
    return tuple(_stage(statement, text) for statement in calls)


def _stage(statement: ast.stmt, text: str) -> Stage:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Name):
        call = ast.Call(call, [], [])
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        what = ast.unparse(statement)
        raise UsageError(f"{what!r} in {text!r} is neither a stage like 'rescale()' nor a chain ({', '.join(CHAINS)})")
    kind = get(call.func.id)
    hints = typing.get_type_hints(kind)
    fields = [field.name for field in dataclasses.fields(kind) if field.init]
    given: list[tuple[str | None, ast.expr]] = [(keyword.arg, keyword.value) for keyword in call.keywords]
    if kind.variadic and call.args and not isinstance(call.args[0], (ast.List, ast.Tuple)):
        given.insert(0, (kind.variadic, ast.Tuple(call.args, ast.Load())))
    elif len(call.args) > len(fields):
        raise UsageError(f"stage {kind.name} takes {len(fields)} arguments ({', '.join(fields)}), not {len(call.args)}")
    else:
        given = [*zip(fields, call.args, strict=False), *given]
    arguments: dict[str, object] = {}
    for name, node in given:
        check_known(f"argument of stage {kind.name}", name, fields)
        if name in arguments:
            raise UsageError(f"stage {kind.name}: {name} is given twice in {text!r}")
        holds_stages = hints[str(name)] in (Stage, tuple[Stage, ...])
        arguments[str(name)] = _nested(node, text) if holds_stages else _literal(node, kind.name)
    try:
        return kind(**arguments)
    except TypeError as error:  # a field without a default is missing
        raise UsageError(f"stage {kind.name}: {error}") from None


def _nested(node: ast.expr, text: str) -> object:
    if isinstance(node, (ast.List, ast.Tuple)):
        return tuple(_nested(each, text) for each in node.elts)
    return _stage(ast.Expr(node), text)


def _literal(node: ast.expr, stage: str) -> object:
    try:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return ast.literal_eval(node.left) / ast.literal_eval(node.right)
        return ast.literal_eval(node)
    except (ValueError, TypeError, ZeroDivisionError):
        raise UsageError(f"stage {stage}: {ast.unparse(node)!r} is not a literal value") from None


def text(stages: Iterable[Stage]) -> str:
    """Returns text that `parse` reads: the stages with the fields that differ from their defaults, by name. Raises
    UsageError for a stage that is not registered."""
    return "; ".join(_call(stage) for stage in stages)


def _call(stage: object) -> str:
    """Returns a stage as text, and any other value as a literal."""
    if not isinstance(stage, Stage):
        return repr(stage)
    if not is_registered(type(stage)):
        stage.refuse(f"{type(stage).__qualname__} is not in the registry: decorate the class with @register")
    changed = [
        f"{field.name}={_call(getattr(stage, field.name))}"
        for field in dataclasses.fields(stage)
        if field.name != stage.variadic and getattr(stage, field.name) != field.default
    ]
    several = [_call(each) for each in getattr(stage, stage.variadic)] if stage.variadic else []
    return f"{stage.name}({', '.join([*several, *changed])})"

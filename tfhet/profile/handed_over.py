"""Profiles the data that a script first passes for training, to `tfhet.distribute` for example: `python -m` this module
runs it.

The data are measured inside that call, because a data set cannot leave its process. Then the script ends, as by
`sys.exit()`. Instead of a script, FILE.py:NAME names a function that returns a Ray data set.
"""

from __future__ import annotations

import functools
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfhet.errors import NotReady, UsageError
from tfhet.events import Observer, ignore
from tfhet.extras import needed
from tfhet.pipeline import Pipeline
from tfhet.planes import Loader, on_training_data
from tfhet.planes.feed import Shard
from tfhet.profile.effort import Effort
from tfhet.profile.loader import measure_loader
from tfhet.profile.native import is_measured_natively, measure_native
from tfhet.profile.pipelines import load, measure_pipeline
from tfhet.profile.ray_data import measure_ray, names_ray
from tfhet.profile.result import Profile
from tfhet.profile.stored import measure_stored
from tfhet.profile.target import function_of, makes_ray, ray_data_set
from tfhet.record import RunFolder, write_text

REACHED, RECORD, FAILURE = "reached", "record.json", "failure"
"""Files of the process, in addition to events: the script has reached the call, the profile, or why it is missing."""


def measure_target(target: Any, effort: Effort, observer: Observer = ignore) -> Profile:
    """Returns the profile of a pipeline, data set or loader. Raises UsageError for anything else."""
    found = _measured(target, effort, observer)
    pipeline = target.pipeline if isinstance(target, Loader) else target
    return replace(found, stored=measure_stored(pipeline)) if isinstance(pipeline, Pipeline) else found


def _measured(target: Any, effort: Effort, observer: Observer) -> Profile:
    if isinstance(target, Loader) and target.pipeline is not None:
        return measure_native(target.pipeline, effort, observer=observer)
    if isinstance(target, Loader):
        source, as_loader = target.source, functools.partial(measure_loader, target, effort, observer=observer)
        if not names_ray(source.called):
            return as_loader()
        make = functools.partial(source.make, Shard(0, 1))
        given: dict[str, Any] = {"batch_size": source.batch_size, "otherwise": as_loader, "observer": observer}
        return measure_ray(make, effort, **given)
    if is_measured_natively(target):
        return measure_native(target, effort, observer=observer)
    with needed("the profile of what tf.data runs"):
        return measure_pipeline(target, effort, observer)


def _named(target: str, effort: Effort, observer: Observer) -> Profile:
    """Returns the profile of FILE.py:NAME in a file that imports Ray."""

    def otherwise() -> Profile:
        return measure_target(load(target), effort, observer)

    try:
        function_of(target)
    except UsageError:  # a data set, for one
        return otherwise()
    return measure_ray(functools.partial(ray_data_set, target), effort, otherwise=otherwise, observer=observer)


def main(argv: Sequence[str]) -> None:
    """Runs a script. argv: folder of the files above, CPU seconds, rounds, script, its arguments."""
    folder, script, effort = Path(argv[0]), argv[3], Effort(float(argv[1]), int(argv[2]))

    def leave(measured: Callable[[Observer], Profile]) -> None:
        (folder / REACHED).touch()
        try:
            measured(RunFolder(folder).write_event).record().write(folder / RECORD)
        except Exception as error:  # noqa: BLE001  raised by the script's pipeline
            kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
            write_text(folder / FAILURE, str(error) if isinstance(error, NotReady) else f"it hands over {kind}{error}")
        raise SystemExit(0)

    is_target = makes_ray(script)
    sys.argv = [script.rpartition(":")[0] if is_target else script, *argv[4:]]  # Ray's tasks find modules there
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    if is_target:
        leave(lambda observer: _named(script, effort, observer))
    on_training_data(lambda data: leave(lambda observer: measure_target(data, effort, observer)))
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])

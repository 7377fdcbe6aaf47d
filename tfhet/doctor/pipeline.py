"""A data set that is to be examined, and what is known of the job around it: facts for `pipeline_rules`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tfhet.errors import UsageError
from tfhet.profile import Anatomy


@dataclass(frozen=True)
class PipelineFacts:
    """One data set."""

    anatomy: Anatomy | None
    """None: it could not be built."""
    error: str = ""
    """Why not."""
    workers: int | None = None
    """Of the data service; None: not known."""
    memory_bytes: int = 0
    """Of a machine that works on it: this one's."""


def look(target: str, stages: str | None, workers: int | None, memory_bytes: int) -> PipelineFacts:
    """Builds what `target` names (see `tfhet.profile.load`) and looks into its graph; reads no data.

    Loads TensorFlow, and runs the user's file. Raises UsageError for a target that is none.
    """
    from tfhet.profile import anatomy_of, load

    try:
        found = anatomy_of(load(target, stages))
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # the user's code: whatever it raises is a finding
        return PipelineFacts(None, _told(error), workers, memory_bytes)
    return PipelineFacts(found, "", workers, memory_bytes)


def _told(error: BaseException) -> str:
    """Its last line: AutoGraph puts the way through the user's code before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    place = re.search(r'File "([^"]+)", line (\d+)', str(error))
    name = type(error).__name__
    text = lines[-1] if lines[-1].startswith(name) else f"{name}: {lines[-1]}"
    return f"{text[:300]} ({place[1]}:{place[2]})" if place else text[:300]

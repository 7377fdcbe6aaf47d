"""The commands to type after a run, chosen by its verdict."""

from __future__ import annotations

import shlex
from pathlib import Path

from tfhet.advice.input_bound import Diagnosis, InputState
from tfhet.record import RunFolder, RunSummary

JOB_FILE = "job.yaml"


def next_commands(found: Diagnosis, run: RunSummary, folder: RunFolder) -> list[str]:
    """Returns the commands after a run, in order, without finished ones.

    A run that waits for its input or has data hosts is profiled, planned and submitted, another one submitted as it is;
    submitting needs a job file in the working directory. A failed run, or one without steps, is examined.
    """
    if found.state is InputState.UNKNOWN or run.exit_code:
        script = _script(folder)
        return [f"tfhet doctor --brief --script {shlex.quote(script[0])}"] if script else []
    has_job = Path(JOB_FILE).is_file()
    submit, at = [f"tfhet submit --dry_run {JOB_FILE}"] if has_job else [], shlex.quote(str(folder.path))
    if found.state is InputState.NOT and run.mode != "heterogeneous":
        return submit
    write = f" --write {JOB_FILE}" if has_job else ""
    plan = f"tfhet plan --run {at} --json {shlex.quote(str(folder.plan_path))}{write}"
    todo = {folder.profile_path: profile_command(folder, run), folder.plan_path: plan}
    return [*(command for path, command in todo.items() if not path.is_file()), *submit]


def profile_command(folder: RunFolder | None = None, run: RunSummary | None = None) -> str:
    """Returns the command that profiles the pipeline of a run into its folder, with placeholders if unknown."""
    script = (folder and _script(folder)) or ["SCRIPT.py"]
    to = shlex.quote(str(folder.profile_path)) if folder else "FILE"
    if folder and (run := run or folder.read_summary()).stages_where:  # of the built-in trainer
        channels = sorted(path for path in folder.path.glob("hosts/*/input/data/*") if path.name.startswith("train"))
        stages = "; ".join(stage.partition(" at ")[0] for stage in run.stages_where)
        data = [str(channels[0] if channels else Path("DATA")), "--stages", stages, "--batch_size", str(run.batch_size)]
        return f"tfhet profile {shlex.join(data)} --json {to}"
    arguments = f" -- {shlex.join(script[1:])}" if script[1:] else ""
    return f"tfhet profile --script {shlex.quote(script[0])} --json {to}{arguments}"


def _script(folder: RunFolder) -> list[str]:
    """Returns the script of a run, as a path from here, and its arguments; [] if unknown."""
    commands = (event.get("command") for event in folder.events() if event.get("event") == "training.started")
    words = [str(word) for word in next(commands, None) or ()][1:]
    if not words or words[0] == "-m":
        return []
    return [words[0] if Path(words[0]).is_file() else Path(words[0]).name, *words[1:]]

"""The verdict of a watched run, in lines for a terminal."""

from __future__ import annotations

from tfhet.advice import Diagnosis, of_run, sentence
from tfhet.record import RunFolder
from tfhet.report import RunView
from tfhet.units import GIB


def diagnosis(folder: RunFolder) -> Diagnosis:
    """Returns the findings in the record of a watched run. Raises as `RunFolder.read_summary`."""
    return _of_view(RunView.of(folder.read_summary(), folder))


def _of_view(view: RunView) -> Diagnosis:
    return of_run(view.run, waits=view.waits, events=view.happened)


def verdict(folder: RunFolder) -> str:
    """Returns whether the run waits for its input, the evidence, and changes in the order of effort, a line each.
    Raises as `RunFolder.read_summary`."""
    view = RunView.of(folder.read_summary(), folder)
    found, run = _of_view(view), view.run
    steps = f"{run.steps} steps of {run.step_ms.median:.1f} ms (median)" if run.steps and run.step_ms else "no steps"
    ranks = f", {run.ranks} ranks" if (run.ranks or 1) > 1 else ""
    lines = [f"tfhet watch: {sentence(found.verdict)}", f"  measured: {steps}{ranks}, {run.watched.get('reader', '')}"]
    used = run.watched.get("cpus_used") or {}
    if peak := run.watched.get("memory_pss_peak_bytes"):
        cpus = ", ".join(f"{name} {value:.1f}" for name, value in used.items())
        lines.append(f"  used: {peak / GIB:.1f} GiB of memory at most; CPUs: {cpus or 'not known'}")
    if (log := folder.log_path("watch")).is_file():
        lines.append(f"  Some hooks failed, so steps may be missing: {log}")
    lines += [f"  {sentence(each)}" for each in found.evidence]
    lines += [f"  - {sentence(each)}" for each in found.levers]
    if found.levers and "num_workers" in run.watched.get("settings", {}) and (run.ranks or 1) == 1:
        lines.append(
            "  `tfhet try -- COMMAND` measures other loaders in the script, and writes the fastest one as a patch."
        )
    return "\n".join(line.rstrip(", ") for line in lines)

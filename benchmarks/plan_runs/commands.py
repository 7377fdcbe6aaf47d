"""The commands of `benchmarks.plan_runs`, as a user types them, each in a process of its own."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import ENDS_WITH_PARENT, child_environment
from benchmarks.faults.case import bare
from benchmarks.job_scripts import SOURCE_DIR
from benchmarks.plan_runs.case import Hosts, PlanRunCase, Script
from tfhet.errors import JobFailed
from tfhet.record import RunFolder, read_json

RUN_LIMIT_S, END_S = 180.0, 60.0
"""For a simulated job, and for its end."""
PROFILE_LIMIT_S, PLAN_LIMIT_S = 240.0, 60.0
PROFILE_CPU_S, PROFILE_ROUNDS = 12.0, 5
SAID = 2000
"""The last characters of a command that failed, for its error."""


@dataclass
class Commands:
    """Types commands into a shell, so to say, and keeps what was typed, without the places of files."""

    place: Path
    """A folder of its own, where the runs lie."""
    typed: list[str] = field(default_factory=list)

    def simulate(
        self, name: str, script: Script, step_ms: float | None, hosts: Hosts, channels: Mapping[str, str], *more: str
    ) -> RunFolder:
        """Runs the script on a simulated cluster, in containers; `more`: of the launcher. Raises JobFailed."""
        cluster, folder = self.place / f"{name}.yaml", self.place / name
        cluster.write_text(hosts.file(channels))
        how = ["--hosts", "namespace", "--start", "alone", "--limits_from", "reading", "--source_dir", str(SOURCE_DIR)]
        launcher = ["tfhet_launcher.py", "--train_script", str(script.path), *more, *script.words(step_ms)]
        run = [str(cluster), *how, "--run_dir", str(folder), "--max_run_s", f"{RUN_LIMIT_S:g}"]
        self._type(["simulate", *run, "--", *launcher], RUN_LIMIT_S + END_S)
        return RunFolder(folder)

    def profile(self, script: Script, channels: Mapping[str, str]) -> Path:
        """The profile of the script's input pipeline. Raises JobFailed."""
        record = self.place / f"profile-{script.name}.json"
        effort = ["--budget_s", f"{PROFILE_CPU_S:g}", "--repeats", str(PROFILE_ROUNDS), "--json", str(record)]
        words = ["profile", "--script", str(script.path), *effort, "--", *script.words(1.0 if script.chain else None)]
        self._type(words, PROFILE_LIMIT_S, {f"SM_CHANNEL_{name.upper()}": path for name, path in channels.items()})
        return record

    def plan(self, case: PlanRunCase, before: RunFolder, profile: Path) -> Mapping[str, Any]:
        """The plan's candidate for the cluster that is asked about. Raises JobFailed."""
        file = self.place / f"plan-{case.name}.json"
        words = ["plan", "--run", str(before.path), "--profile", str(profile), *case.plan_words, "--json", str(file)]
        self._type(words, PLAN_LIMIT_S)
        plan = read_json(file, "plan")
        for candidate in plan["candidates"]:
            if candidate["cluster"]["text"] == str(case.after):
                return {**candidate, "notes": plan["notes"]}
        raise JobFailed(f"case {case.name}: the plan does not show {case.after}")

    def _type(self, words: Sequence[str], limit_s: float, env: Mapping[str, str] | None = None) -> None:
        self.typed.append(bare(shlex.join(["tfhet", *words])))
        command = [*ENDS_WITH_PARENT, sys.executable, "-m", "tfhet", *words]
        try:
            done = subprocess.run(
                command,
                env={**child_environment(), **(env or {})},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise JobFailed(f"not done within {limit_s:g} s: {self.typed[-1]}") from None
        if done.returncode:
            said = (done.stdout + done.stderr)[-SAID:]
            raise JobFailed(f"exit code {done.returncode}: {self.typed[-1]}", log_tail=said.splitlines())


def arguments_of(candidate: Mapping[str, Any]) -> list[str]:
    """The launcher's arguments by which a cluster has the layout that the plan chose for it."""
    layout = candidate["layout"]
    return [word for name in ("data_host_workers", "dnn_host_workers") for word in (f"--{name}", str(layout[name]))]

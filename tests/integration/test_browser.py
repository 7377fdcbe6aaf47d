"""The page of a run in Chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tfhet.record import RunFolder, RunSummary, Spread
from tfhet.report import write_html

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--enable-logging=stderr")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_page_renders_without_scripts_or_network(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    run = RunFolder(tmp_path / "run").create()
    times = {"step_ms": Spread.of([80.0, 90.0, 85.0]), "wait_ms": Spread.of([8.0, 9.0, 1.0])}
    run.write_summary(RunSummary(name="demo", exit_code=0, step_parts_ms={"wait": 6.0, "compute": 79.0}, **times))
    shot, requests = tmp_path / "shot.png", tmp_path / "requests.json"
    files = (f"--screenshot={shot}", f"--log-net-log={requests}", f"--user-data-dir={tmp_path / 'profile'}")
    command = [CHROMIUM, *FLAGS, *files, "--window-size=1280,1600", "--dump-dom", write_html(run).as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    assert done.stdout.count("<svg") >= 4
    assert "CONSOLE" not in done.stderr
    asked = [event.get("params", {}) for event in json.loads(requests.read_text())["events"]]
    assert [each["url"] for each in asked if each.get("initiator", "not an origin") != "not an origin"] == []
    colours = sorted(count for count, _ in image.open(shot).convert("RGB").getcolors(1 << 24))
    assert len(colours) > 50 and colours[-1] < 0.99 * sum(colours)

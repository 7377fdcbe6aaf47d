"""The lines of a script with Ray that are not its own last words."""

from __future__ import annotations

import pytest

from tfhet.planes.ray import RAY


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[36m(rows_of pid=412)\x1b[0m 7",
        "(rows_of pid=412, ip=10.0.0.2) 7",
        "\x1b[33m(raylet, ip=127.0.0.5)\x1b[0m [2026-11-26 04:01:45,731 E 7348 7348] (raylet) main.cc:1108: no agent",
        "\x1b[33m(raylet)\x1b[0m [2026-11-26 04:01:45,731 E 7348 7348] (raylet) main.cc:1108: no agent",
        "\x1b[36m(pid=gcs_server)\x1b[0m [2026-11-26 04:07:57,173 E 1 1] (gcs_server) gcs_server.cc:1: no agent",
        "2026-11-26 03:51:27,362\tINFO worker.py:2038 -- Connected to Ray cluster.",
    ],
)
def test_lines_of_tasks_and_of_ray_are_no_last_words(line: str):
    assert RAY.is_noise(line)


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: the picture 77 is upside down",
        "(raylets are missing)",
        "2026-11-26 03:51:27,362\tERROR worker.py:2038 -- the node is gone",
        "INFO train.py:12 -- epoch 3",
    ],
)
def test_what_a_script_says_itself_is_kept(line: str):
    assert not RAY.is_noise(line)

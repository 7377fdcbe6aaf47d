"""The process of a rank's script, with scripts of a few lines."""

from __future__ import annotations

import asyncio
import os
import sys

from tfhet.launch import script
from tfhet.launch.script import Hearing, Script


def test_a_script_that_is_killed_because_it_does_not_stop_is_said_to_have_had_its_time(assignment_of, monkeypatch):
    monkeypatch.setattr(script, "SCRIPT_GRACE_S", 0.2)
    code = "from signal import *; import time; signal(SIGTERM, SIG_IGN); print('deaf', flush=True); time.sleep(9)"

    async def scenario() -> str:
        deaf = asyncio.Event()
        said = Hearing(lambda line: deaf.set(), lambda line: None, lambda endlessly: None)
        one = Script(assignment_of("t1", 0, "--train_script", "mine.py"), said, lambda line: None)
        await one.start([sys.executable, "-c", code], dict(os.environ))
        await deaf.wait()
        one.request_stop()
        result = await one.ended()
        assert result.code == 137
        return result.headline

    headline = asyncio.run(asyncio.wait_for(scenario(), 30))
    assert headline.startswith("mine.py ended on t1, rank 0, which had 0.2 s to stop: SIGKILL")

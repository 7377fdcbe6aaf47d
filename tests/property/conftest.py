"""Says how many inputs the fuzz tests of this session ran.

Fixtures: `quiet_link` (per module): the link logs nothing of the thousands of connections that it drops.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import rubbish


@pytest.fixture(scope="module")
def quiet_link() -> Iterator[None]:
    logger = logging.getLogger("tfhet.control")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if rubbish.RAN:
        parts = ", ".join(f"{subject} {count:,}" for subject, count in rubbish.RAN.items())
        terminalreporter.write_line(f"fuzz: {rubbish.RAN.total():,} inputs ({parts})")

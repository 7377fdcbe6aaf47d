"""Fixtures: `quiet_link` (per module): the link logs nothing of the thousands of connections that it drops."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def quiet_link() -> Iterator[None]:
    logger = logging.getLogger("tfhet.control")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)

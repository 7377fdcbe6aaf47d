"""Fixtures: `jobs` (the folder of sound job files), `job_text` (one of them, to be made wrong)."""

from __future__ import annotations

from pathlib import Path

import pytest

JOBS = Path(__file__).parent / "jobs"


@pytest.fixture
def jobs() -> Path:
    return JOBS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `job_file` runs with each of them."""
    if "job_file" in metafunc.fixturenames:
        files = sorted(JOBS.glob("*.yaml"))
        metafunc.parametrize("job_file", files, ids=[file.stem for file in files])

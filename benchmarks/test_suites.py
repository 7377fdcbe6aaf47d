"""Every suite can be run by its name, and is told of."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.__main__ import suites

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(suites()))
def test_a_suite_has_a_command_options_and_a_page(name: str) -> None:
    suite = suites()[name]
    assert suite.name == name and suite.does
    suite.options(argparse.ArgumentParser())
    assert suite.measures and all((HERE.parent / part).exists() for part in suite.measures)
    assert f"python -m benchmarks.{name}" in (HERE / name / "README.md").read_text()
    assert (HERE / name / "__main__.py").is_file()
    assert f"({name}/README.md)" in (HERE / "README.md").read_text()

"""The rules and fixtures of `tests/conftest.py` apply to the tests of the benchmarks, too."""

from __future__ import annotations

import importlib

import pytest


def pytest_configure(config: pytest.Config) -> None:
    shared = importlib.import_module("tests.conftest")
    if not config.pluginmanager.is_registered(shared):  # pytest has it already where it collects tests/ as well
        config.pluginmanager.register(shared, "tests.conftest")

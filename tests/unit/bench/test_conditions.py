"""bench/conditions.py: what goes on beside a measurement."""

from __future__ import annotations

import pytest

from tfhet.bench import Conditions


def test_the_load_before_and_what_others_took_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    noted = Conditions(0.256, 100.0, 1.0).until(Conditions(2.0, 300.0, 5.0))
    assert noted["load_before"] == 0.26 and noted["stolen_pct"] == 2.0
    assert noted["variables"]["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1" and "LD_PRELOAD" not in noted["variables"]


def test_the_machine_has_counted_some_time() -> None:
    now = Conditions.now()
    assert now.cpu_s > now.stolen_s >= 0.0 and now.load >= 0.0
    assert now.until(now)["stolen_pct"] == 0.0

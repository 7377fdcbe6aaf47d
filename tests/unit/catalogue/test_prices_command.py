"""`tfhet prices`: the table, its notes, and wrong use."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from tfhet import catalogue
from tfhet.__main__ import main
from tfhet.catalogue.price_list import PriceList

pytestmark = pytest.mark.usefixtures("home")


def test_table_shows_price_source_and_day(capsys):
    assert main(["prices", "c5.xlarge", "--wide"]) == 0
    (row,) = (line.split() for line in capsys.readouterr().out.splitlines() if "ml.c5.xlarge" in line)
    assert row[:2] == ["ml.c5.xlarge", "4"] and {"0.1700", "0.0425", "ec2", "2026-07-20"} <= set(row)


def test_types_with_a_price_are_listed(capsys):
    assert main(["prices", "--market", "ec2"]) == 0
    assert capsys.readouterr().out.count("\n ml.") == len(catalogue.shipped().prices(market="ec2"))


@pytest.mark.parametrize(
    ("words", "noted"),
    [
        (["c5.xlarge"], []),
        (["m5.xlarge", "c5.xlarge", "p5e.48xlarge"], ["--market ec2", "refresh --region us-east-1"]),
        (["--region", "ap-south-1"], ["refresh --region ap-south-1", "eu-west-1"]),
    ],
)
def test_missing_and_mixed_prices_are_noted(words, noted, capsys, tmp_path: Path):
    path = tmp_path / "prices.json"
    assert main(["prices", *words, "--json", str(path)]) == 0
    out = capsys.readouterr().out
    assert all(part in out for part in noted) and ("refresh" in out) == bool(noted)
    known = {"m5.xlarge": 0.23, "c5.xlarge": 0.17, "p5e.48xlarge": None}
    wanted = [(f"ml.{name}", known[name]) for name in words if name in known]
    assert [(row["type"], row["USD/h"]) for row in json.loads(path.read_text())["prices"]] == wanted


def test_own_file_adds_types(capsys, tmp_path: Path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "instances: {box.large: {vcpus: 10, memory_gib: 64}}\n"
        "prices: [{region: us-east-1, market: ec2, source: bill, date: 2026-10-01, usd_per_hour: {box.large: 5}}]\n"
    )
    assert main(["prices", "box.large", "--wide", "--instances", str(path)]) == 0
    assert {"5.0000", "0.5000", "bill"} <= set(capsys.readouterr().out.split())
    path.write_text("prices: [{}]\n")
    assert main(["prices", "--instances", str(path)]) == 2
    assert "own.yaml:1:" in capsys.readouterr().err


def test_refresh_prints_the_written_file(monkeypatch, capsys, tmp_path: Path):
    found = PriceList("eu-west-1", datetime.date(2026, 10, 1), {"ml.c5.xlarge": 0.2, "ml.c5.2xlarge": 0.4})
    asked = []
    monkeypatch.setattr(catalogue, "refresh", lambda *words: asked.append(words) or (tmp_path / "p.yaml", found))
    assert main(["prices", "refresh", "--region", "eu-west-1", "--file", str(tmp_path / "p.yaml")]) == 0
    assert asked == [("eu-west-1", tmp_path / "p.yaml")]
    out = capsys.readouterr().out
    assert out.startswith("2 ") and out.endswith(f"{tmp_path / 'p.yaml'}\n")


@pytest.mark.parametrize(
    ("words", "named"),
    [(["c5.huge"], "'c5.huge'"), (["--file", "x.yaml"], "--instances FILE"), (["--instances", "no.yaml"], "no.yaml")],
)
def test_wrong_use_ends_with_2(capsys, words, named):
    assert main(["prices", *words]) == 2
    assert named in capsys.readouterr().err

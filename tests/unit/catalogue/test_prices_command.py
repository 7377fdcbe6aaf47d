"""`tfhet prices`: the table, its notes, and what is refused."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from tfhet import catalogue
from tfhet.__main__ import main
from tfhet.catalogue.price_list import PriceList

pytestmark = pytest.mark.usefixtures("no_files_of_a_user")


def test_the_table_says_what_a_type_costs_where_it_is_bought_and_who_says_so(capsys):
    assert main(["prices", "c5.xlarge", "--wide"]) == 0
    told = capsys.readouterr().out
    row = next(line for line in told.splitlines() if "ml.c5.xlarge" in line)
    assert row.split()[:2] == ["ml.c5.xlarge", "4"]
    assert all(word in row for word in ("0.1700", "0.0425", "ec2", "2026-07-20", "karpenter"))
    assert "two markets" not in told and "no price known" not in told


def test_without_types_all_that_have_a_price_are_listed(capsys):
    assert main(["prices", "--market", "ec2"]) == 0
    assert capsys.readouterr().out.count("\n ml.") == len(catalogue.shipped().prices(market="ec2"))


def test_prices_that_do_not_compare_and_such_as_are_missing_are_told(capsys, tmp_path: Path):
    path = tmp_path / "prices.json"
    assert main(["prices", "m5.xlarge", "c5.xlarge", "p5e.48xlarge", "--json", str(path)]) == 0
    told = capsys.readouterr().out
    assert "prices of two markets cannot be compared" in told
    assert "tfhet prices refresh --region us-east-1" in told
    rows = json.loads(path.read_text())["prices"]
    assert [(row["type"], row["USD/h"]) for row in rows] == [
        ("ml.m5.xlarge", 0.23),
        ("ml.c5.xlarge", 0.17),
        ("ml.p5e.48xlarge", None),
    ]


def test_a_region_of_which_nothing_is_known_says_how_to_ask(capsys):
    assert main(["prices", "--region", "ap-south-1"]) == 0
    assert "refresh --region ap-south-1`; known here: some of eu-west-1, us-east-1" in capsys.readouterr().out


def test_a_file_of_the_users_is_laid_over(capsys, tmp_path: Path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "instances: {box.large: {vcpus: 10, memory_gib: 64}}\n"
        "prices: [{region: us-east-1, market: ec2, source: bill, date: 2026-10-01, usd_per_hour: {box.large: 5}}]\n"
    )
    assert main(["prices", "box.large", "--wide", "--instances", str(path)]) == 0
    told = capsys.readouterr().out
    assert "5.0000" in told and "0.5000" in told and "bill" in told
    path.write_text("prices: [{}]\n")
    assert main(["prices", "--instances", str(path)]) == 2
    assert "own.yaml:1: prices[0]: region must be given" in capsys.readouterr().err


def test_refresh_says_what_it_wrote_and_where(monkeypatch, capsys, tmp_path: Path):
    found = PriceList("eu-west-1", datetime.date(2026, 10, 1), {"ml.c5.xlarge": 0.2, "ml.c5.2xlarge": 0.4})
    asked = []
    monkeypatch.setattr(catalogue, "refresh", lambda *words: asked.append(words) or (tmp_path / "p.yaml", found))
    assert main(["prices", "refresh", "--region", "eu-west-1", "--file", str(tmp_path / "p.yaml")]) == 0
    assert asked == [("eu-west-1", tmp_path / "p.yaml")]
    assert capsys.readouterr().out == f"2 prices of training in eu-west-1, of 2026-10-01: {tmp_path / 'p.yaml'}\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["c5.huge"], "unknown instance type 'c5.huge'; known: ml.c5."),
        (["--file", "x.yaml"], "--instances FILE"),
        (["--instances", "no.yaml"], "this catalogue file cannot be read"),
    ],
)
def test_wrong_use_ends_with_2(capsys, words, says):
    assert main(["prices", *words]) == 2
    assert says in capsys.readouterr().err

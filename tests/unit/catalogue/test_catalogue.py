"""catalogue/catalogue.py: which file wins, which price is the one, and what the package brings."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tfhet import catalogue
from tfhet.catalogue import AWS_POST, EC2, TRAINING, Catalogue, shipped
from tfhet.catalogue.catalogue import own_path, refreshed_path
from tfhet.catalogue.catalogue_file import CatalogueFile
from tfhet.errors import UsageError

OWN = """\
instances:
  ml.box.large: {vcpus: 16, memory_gib: 64}
  ml.c5.xlarge: {vcpus: 2, memory_gib: 4}
prices:
  - {region: us-east-1, market: ec2, source: me, date: 2020-01-01, usd_per_hour: {box.large: 1.5, c5.xlarge: 0.1}}
"""


def prices_of(usd: float, *, market: str = EC2, date: str = "2026-01-01", region: str = "us-east-1") -> CatalogueFile:
    about = f"region: {region}, market: {market}, source: s, date: {date}"
    text = f"prices:\n  - {{{about}, usd_per_hour: {{c5.xlarge: {usd}}}}}"
    return CatalogueFile.parse(text, "prices.yaml")


def with_prices(*files: CatalogueFile) -> Catalogue:
    made = Catalogue(shipped().instances)
    for file in files:
        made = made.over(file)
    return made


def usd(known: Catalogue, **how: str) -> float | None:
    price = known.price("c5.xlarge", **how)
    return price.usd_per_hour if price else None


def test_what_nobody_has_priced_has_no_price():
    assert with_prices().price("c5.xlarge") is None
    assert with_prices(prices_of(1, region="eu-west-1")).price("c5.xlarge") is None
    assert shipped().price("ml.p5e.48xlarge") is None


def test_the_last_file_wins_whatever_its_day_and_market():
    assert usd(with_prices(prices_of(1, date="2026-02-01", market=TRAINING), prices_of(2, date="2020-01-01"))) == 2


def test_of_one_file_the_newest_price_wins_and_on_one_day_that_of_sagemaker():
    text = "prices:\n" + "".join(
        f"  - {{region: us-east-1, market: {market}, source: s, date: {date}, usd_per_hour: {{c5.xlarge: {value}}}}}\n"
        for market, date, value in [(EC2, "2026-01-01", 1), (EC2, "2026-03-01", 2), (TRAINING, "2026-03-01", 3)]
    )
    known = with_prices(CatalogueFile.parse(text, "f"))
    assert usd(known) == 3 and usd(known, market=EC2) == 2


def test_a_market_is_never_answered_with_a_price_of_the_other():
    known = with_prices(prices_of(1, market=EC2))
    assert usd(known, market=TRAINING) is None
    assert known.prices(market=TRAINING) == {} and list(known.prices(market=EC2)) == ["ml.c5.xlarge"]
    with pytest.raises(UsageError, match="unknown market 'spot'; known: ec2, sagemaker training"):
        known.price("c5.xlarge", market="spot")


def test_a_common_market_is_one_in_which_all_have_a_price():
    known = shipped()
    assert known.common_market(["m5.xlarge", "g5.xlarge"]) == TRAINING
    assert known.common_market(["m5.xlarge", "c5.18xlarge"]) == EC2
    assert known.common_market(["m5.xlarge", "p5e.48xlarge"]) is None
    assert known.common_market(["m5.xlarge"], region="ap-south-1") is None


def test_a_price_of_an_unknown_type_is_an_error_with_names_like_it():
    with pytest.raises(UsageError, match=r"unknown instance type 'c5.xlarg'; known: .*ml\.c5\.xlarge"):
        shipped().price("c5.xlarg")


def test_a_files_types_and_prices_are_laid_over_what_is_known(tmp_path: Path):
    (tmp_path / "own.yaml").write_text(OWN)
    known = shipped().with_file(tmp_path / "own.yaml")
    assert known.instance("box.large").vcpus == 16 and known.instance("c5.xlarge").vcpus == 2
    assert usd(known) == 0.1 and usd(known, market=TRAINING) is None
    assert known.instance("c5.2xlarge") == shipped().instance("c5.2xlarge")
    assert shipped().instance("c5.xlarge").vcpus == 4, "the package's own stay as they are"


def test_a_price_of_a_type_that_nobody_knows_is_an_error_with_its_line(tmp_path: Path):
    path = tmp_path / "own.yaml"
    path.write_text(OWN.replace("c5.xlarge: 0.1", "c5.xlarg: 0.1"))
    with pytest.raises(UsageError, match=r"own\.yaml:5: a price of ml\.c5\.xlarg, which is no known type.*ml\.c5\."):
        shipped().with_file(path)


def test_the_users_files_are_found_in_the_order_that_is_told(home: Path):
    assert catalogue.default() is shipped()
    refreshed, own = refreshed_path("us-east-1"), own_path()
    assert refreshed == home / ".cache/tfhet/prices/us-east-1.yaml" and own == home / ".config/tfhet/catalogue.yaml"
    refreshed.parent.mkdir(parents=True)
    list_of = "prices:\n  - {{region: us-east-1, market: sagemaker training, source: AWS, date: 2026-10-01, {}}}\n"
    refreshed.write_text(list_of.format("usd_per_hour: {ml.c5.xlarge: 0.2, ml.box.large: 9, ml.inf9.xlarge: 1}"))
    assert usd(catalogue.default()) == 0.2
    own.parent.mkdir(parents=True)
    own.write_text(OWN)
    assert usd(catalogue.default()) == 0.1
    assert (
        catalogue.default().price("box.large").usd_per_hour == 1.5
        and catalogue.default().instance("box.large").vcpus == 16
    )
    assert catalogue.default().price("box.large", market=TRAINING).usd_per_hour == 9
    assert "ml.inf9.xlarge" not in catalogue.default().prices(), "AWS sells more types than are known here"
    own.unlink()
    assert usd(catalogue.default()) == 0.2
    assert refreshed.parent.stat().st_mode & 0o777 == 0o700
    refreshed.parent.chmod(0o777)
    with pytest.raises(UsageError, match="prices: others may put files there"):
        catalogue.default()


def test_a_users_file_with_faults_is_not_passed_over(home: Path):
    path = own_path()
    path.parent.mkdir(parents=True)
    path.write_text("instances:\n  ml.box.large: {vcpus: 16}\n")
    with pytest.raises(UsageError, match=r"catalogue\.yaml:2: .*memory_gib must be given"):
        catalogue.default().instance("c5.xlarge")


def test_all_prices_of_the_package_are_of_known_types_with_source_and_day():
    known = shipped()
    for name in ("prices.yaml", "aws-post.yaml"):
        file = CatalogueFile.read(AWS_POST.parent / name)
        assert file.prices and set(file.lines) <= set(known.instances)
        assert all(len(price.source) > 20 and price.date.year >= 2022 for _, price in file.prices)
    assert set(known.instances) - set(known.prices(market=EC2)) == {"ml.p5e.48xlarge"}
    assert known.regions() == ["eu-west-1", "us-east-1"]


@pytest.mark.parametrize("market", [TRAINING, EC2])
def test_more_memory_beside_as_many_gpus_of_a_family_costs_more(market):
    known = shipped()
    families: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for name, price in known.prices(market=market).items():
        row = known.instance(name)
        families.setdefault((name.split(".")[1], row.gpus), []).append((row.memory_gib, price.usd_per_hour))
    for rows in families.values():
        ordered = sorted(rows)
        assert [usd for _, usd in ordered] == sorted(usd for _, usd in ordered)


def test_sagemaker_asks_more_than_ec2_for_the_same_machine():
    known = shipped()
    both = known.prices(market=TRAINING).keys() & known.prices(market=EC2).keys()
    shares = [
        known.price(name, market=TRAINING).usd_per_hour / known.price(name, market=EC2).usd_per_hour for name in both
    ]
    assert len(shares) >= 10 and all(1.15 < share < 1.45 for share in shares)


def test_the_posts_prices_give_the_posts_saving():
    post = shipped().with_file(AWS_POST)
    gpu, cpu = (post.price(name).usd_per_hour for name in ("p4d.24xlarge", "c5.18xlarge"))
    assert gpu + 2 * cpu == pytest.approx(45.03)
    assert 1 - (gpu + 2 * cpu) / gpu * 86 / 192 == pytest.approx(0.46, abs=0.01)


@given(st.lists(st.tuples(st.sampled_from([TRAINING, EC2]), st.dates(), st.floats(0.01, 100)), max_size=6))
def test_the_price_is_that_of_the_last_file_that_has_one(files):
    made = with_prices(*(prices_of(value, market=market, date=str(day)) for market, day, value in files))
    for market in (None, TRAINING, EC2):
        fitting = [value for other, _, value in files if market in (None, other)]
        assert usd(made, market=market) == (fitting[-1] if fitting else None)

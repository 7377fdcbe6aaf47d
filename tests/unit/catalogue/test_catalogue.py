"""catalogue/catalogue.py: which file wins, which price is taken, and the content of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfhet import catalogue
from tfhet.catalogue import AWS_POST, EC2, MARKETS, TRAINING, Catalogue, Instance, shipped
from tfhet.catalogue.catalogue import CatalogueFile, own_path, refreshed_path
from tfhet.errors import UsageError

OWN = """\
instances:
  ml.box.large: {vcpus: 16, memory_gib: 64}
  ml.c5.xlarge: {vcpus: 2, memory_gib: 4}
prices:
  - {region: us-east-1, market: ec2, source: me, date: 2020-01-01, usd_per_hour: {box.large: 1.5, c5.xlarge: 0.1}}
"""


def prices_of(usd: float, *, market: str = EC2, date: str = "2026-01-01", region: str = "us-east-1") -> str:
    about = f"region: {region}, market: {market}, source: s, date: {date}"
    return f"  - {{{about}, usd_per_hour: {{c5.xlarge: {usd}}}}}\n"


def with_prices(*files: str) -> Catalogue:
    made = Catalogue(shipped().instances)
    for file in files:
        made = made.over(CatalogueFile.parse(f"prices:\n{file}", "prices.yaml"))
    return made


def usd(known: Catalogue, **how: str) -> float | None:
    price = known.price("c5.xlarge", **how)
    return price.usd_per_hour if price else None


def test_unknown_price_is_none():
    assert with_prices().price("c5.xlarge") is None
    assert with_prices(prices_of(1, region="eu-west-1")).price("c5.xlarge") is None
    assert shipped().price("ml.p5e.48xlarge") is None


def test_last_file_and_newest_price_win():
    assert usd(with_prices(prices_of(1, date="2026-02-01", market=TRAINING), prices_of(2, date="2020-01-01"))) == 2
    newest = prices_of(2, date="2026-03-01") + prices_of(3, date="2026-03-01", market=TRAINING)
    known = with_prices(prices_of(1) + newest)
    assert usd(known) == 3 and usd(known, market=EC2) == 2


def test_markets_are_separate():
    known = with_prices(prices_of(1, market=EC2))
    assert usd(known, market=TRAINING) is None
    assert known.prices(market=TRAINING) == {} and list(known.prices(market=EC2)) == ["ml.c5.xlarge"]
    with pytest.raises(UsageError, match=r"'spot'.*ec2"):
        known.price("c5.xlarge", market="spot")
    assert shipped().common_market(["m5.xlarge", "g5.xlarge"]) == TRAINING
    assert shipped().common_market(["m5.xlarge", "c5.18xlarge"]) == EC2
    assert shipped().common_market(["m5.xlarge", "p5e.48xlarge"]) is None
    assert shipped().common_market(["m5.xlarge"], region="ap-south-1") is None


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("ml.c5.3xlarge", r"ml\.c5\.xlarge"),
        ("ml.p3.48xlarge", r"ml\.p3\.2xlarge"),
        ("ml.cc5.xlarge", r"ml\.c5\.xlarge"),
        ("zzz", r"ml\.p5\.48xlarge"),
    ],
)
def test_unknown_type_lists_similar_names(name, near):
    for ask in (shipped().instance, shipped().price):
        with pytest.raises(UsageError, match=f"'{name}'.*{near}"):
            ask(name)


def test_file_wins_over_package(tmp_path: Path):
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    known = shipped().with_file(path)
    assert known.instance("box.large").vcpus == 16 and known.instance("c5.xlarge").vcpus == 2
    assert usd(known) == 0.1 and usd(known, market=TRAINING) is None
    assert known.instance("c5.2xlarge") == shipped().instance("c5.2xlarge")
    assert shipped().instance("c5.xlarge").vcpus == 4, "the package's own stay as they are"
    path.write_text(OWN.replace("c5.xlarge: 0.1", "c5.xlarg: 0.1"))
    with pytest.raises(UsageError, match=r"own\.yaml:5: .*ml\.c5\.xlarg,"):
        shipped().with_file(path)


def test_user_files_are_found_in_order(home: Path):
    assert catalogue.default() is shipped()
    refreshed, own = refreshed_path("us-east-1"), own_path()
    assert refreshed == home / ".cache/tfhet/prices/us-east-1.yaml" and own == home / ".config/tfhet/catalogue.yaml"
    refreshed.parent.mkdir(parents=True)
    list_of = "prices:\n  - {{region: us-east-1, market: sagemaker training, source: AWS, date: 2026-10-01, {}}}\n"
    refreshed.write_text(list_of.format("usd_per_hour: {ml.c5.xlarge: 0.2, ml.box.large: 9, ml.inf9.xlarge: 1}"))
    assert usd(catalogue.default()) == 0.2
    own.parent.mkdir(parents=True)
    own.write_text(OWN)
    known = catalogue.default()
    assert usd(known) == 0.1 and known.instance("box.large").vcpus == 16
    assert known.price("box.large").usd_per_hour == 1.5
    assert known.price("box.large", market=TRAINING).usd_per_hour == 9
    assert "ml.inf9.xlarge" not in known.prices(), "AWS sells more types than are known here"
    own.write_text("instances:\n  ml.box.large: {vcpus: 16}\n")
    with pytest.raises(UsageError, match=r"catalogue\.yaml:2: .*memory_gib"):
        catalogue.default()
    own.unlink()
    assert refreshed.parent.stat().st_mode & 0o777 == 0o700
    refreshed.parent.chmod(0o777)
    with pytest.raises(UsageError, match="prices"):
        catalogue.default()


def test_shipped_prices_name_source_and_day():
    known = shipped()
    for name in ("prices.yaml", "aws-post.yaml"):
        file = CatalogueFile.read(AWS_POST.parent / name)
        assert file.prices and set(file.lines) <= set(known.instances)
        assert all(len(price.source) > 20 and price.date.year >= 2022 for _, price in file.prices)
    assert set(known.instances) - set(known.prices(market=EC2)) == {"ml.p5e.48xlarge"}
    assert known.regions() == ["eu-west-1", "us-east-1"]


@pytest.mark.parametrize("market", MARKETS)
def test_larger_sizes_cost_more(market):
    known = shipped()
    families: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for name, price in known.prices(market=market).items():
        row = known.instance(name)
        families.setdefault((name.split(".")[1], row.gpus), []).append((row.memory_gib, price.usd_per_hour))
    for rows in families.values():
        assert [usd for _, usd in sorted(rows)] == sorted(usd for _, usd in rows)


def test_shipped_types_have_published_sizes():
    known = shipped()
    gpus = {"gpus": 4, "gpu_kind": "V100", "gpu_memory_gib": 16}
    assert known.instance("ml.p3.8xlarge") == Instance("ml.p3.8xlarge", 32, 244, network_gbit_per_s=10, **gpus)
    assert known.instance("p4d.24xlarge") is known.instance("ml.p4d.24xlarge")
    families: dict[str, list[Instance]] = {}
    for name, row in known.instances.items():
        assert name.startswith("ml.") and row.name == name
        assert row.vcpus in range(2, 257) and 1.9 <= row.memory_gib / row.vcpus <= 15.9, name
        families.setdefault(name.split(".")[1], []).append(row)
    for rows in families.values():
        ordered = sorted(rows, key=lambda row: row.vcpus)
        for small, large in zip(ordered, ordered[1:], strict=False):
            assert large.memory_gib > small.memory_gib
            if small.gpus == large.gpus and small.network_gbit_per_s and large.network_gbit_per_s:
                assert large.network_gbit_per_s >= small.network_gbit_per_s


def test_shipped_types_are_known_to_sagemaker():
    botocore = pytest.importorskip("botocore.session", reason="botocore is not installed")
    service = botocore.get_session().get_service_model("sagemaker")
    assert set(shipped().instances) <= set(service.shape_for("TrainingInstanceType").enum)

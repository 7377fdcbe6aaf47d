"""catalogue/price_list.py: AWS's Price List, answered by botocore's Stubber."""

from __future__ import annotations

import copy
import datetime
import json
import sys
from pathlib import Path
from typing import Any

import pytest

boto3 = pytest.importorskip("boto3")

import botocore.exceptions as wrong  # noqa: E402
from botocore.stub import Stubber  # noqa: E402
from fake_clock import FakeClock  # noqa: E402

from tfhet import catalogue  # noqa: E402
from tfhet.catalogue import TRAINING, price_list  # noqa: E402
from tfhet.catalogue.catalogue import refreshed_path  # noqa: E402
from tfhet.errors import DataError, NotReady, UsageError  # noqa: E402

REQUEST = {
    "ServiceCode": "AmazonSageMaker",
    "FormatVersion": "aws_v1",
    "Filters": [
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"},
        {"Type": "TERM_MATCH", "Field": "component", "Value": "Training"},
    ],
}


def product(usage: str = "USE1-Train:ml.c5.xlarge", usd: str = "0.2040000000", sku: str = "ABCDEFGH12345678") -> dict:
    """A document as AWS writes it, without attributes that are not read."""
    dimension = {"unit": "Hrs", "beginRange": "0", "endRange": "Inf", "pricePerUnit": {"USD": usd}}
    term = {"priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": dimension}, "sku": sku}
    attributes = {"regionCode": "us-east-1", "component": "Training", "usagetype": usage, "operation": "RunInstance"}
    return {
        "product": {"productFamily": "ML Instance", "attributes": attributes, "sku": sku},
        "serviceCode": "AmazonSageMaker",
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}},
        "publicationDate": "2026-09-24T23:59:59Z",
    }


@pytest.fixture
def client() -> Any:
    return boto3.client("pricing", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")


def page(*products: dict, following: str | None = None) -> dict[str, Any]:
    texts = [json.dumps(each) for each in products]
    return {"FormatVersion": "aws_v1", "PriceList": texts, **({"NextToken": following} if following else {})}


def asked(client: Any, *pages: dict[str, Any], path: Path | None = None) -> tuple[Path, price_list.PriceList]:
    """The result of a refresh that AWS answers with these pages."""
    with Stubber(client) as stub:
        for number, each in enumerate(pages):
            stub.add_response("get_products", each, {**REQUEST, **({"NextToken": "more"} if number else {})})
        found = catalogue.refresh("us-east-1", path, pricing=client)
        stub.assert_no_pending_responses()
    return found


def test_all_pages_become_a_catalogue_file(client, home: Path, tmp_path: Path):
    spot = product("USE1-TrSpt:ml.c5.xlarge", "0.05")
    first = page(product(), spot, product("USE1-Train:ml.p3.2xlarge", "3.825"), following="more")
    second = page(product("USE1-Train:ml.inf9.xlarge", "1.0"), product("USE1-Train:ml.c5.xlarge", "0.0000000000"))
    named = tmp_path / "new" / "prices.yaml"
    for usd in (1.0, 2.0):
        asked(client, page(product(usd=str(usd))), path=named)
        assert catalogue.shipped().with_file(named).price("c5.xlarge").usd_per_hour == usd
    assert catalogue.default() is catalogue.shipped(), "only the file that was named is written"
    path, found = asked(client, first, second)
    assert found.usd_per_hour == {"ml.c5.xlarge": 0.204, "ml.inf9.xlarge": 1.0, "ml.p3.2xlarge": 3.825}
    assert path == home / ".cache/tfhet/prices/us-east-1.yaml"
    price = catalogue.default().price("c5.xlarge")
    assert price == catalogue.Price(0.204, "us-east-1", TRAINING, "AWS Price List", datetime.date(2026, 9, 24))
    assert catalogue.default().price("c5.2xlarge").market == catalogue.EC2, "other prices stay"


def test_higher_of_two_prices_counts(client, tmp_path: Path):
    listed = page(product(usd="2.61"), product(usd="2.6054"))
    assert asked(client, listed, path=tmp_path / "p.yaml")[1].usd_per_hour == {"ml.c5.xlarge": 2.61}


@pytest.mark.parametrize(
    ("usage", "name"),
    [
        *((f"{prefix}Train:ml.c5.xlarge", "ml.c5.xlarge") for prefix in ("", "EU-", "APS3-")),
        *((f"USE1-{other}", "") for other in ("TrSpt:ml.c5.xlarge", "Host:ml.c5.xlarge", "Train:VolumeUsage.gp2")),
    ],
)
def test_only_training_on_demand_is_read(usage, name):
    assert price_list._product(json.dumps(product(usage)))[0] == name


def dimension(document: dict) -> dict:
    return next(iter(next(iter(document["terms"]["OnDemand"].values()))["priceDimensions"].values()))


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda d: d["product"].pop("attributes"), "'attributes'"),
        (lambda d: d["product"]["attributes"].update(usagetype=3), "string"),
        (lambda d: d.pop("terms"), "'terms'"),
        (lambda d: d["terms"].update(OnDemand=[]), "list"),
        (lambda d: d["terms"].update(OnDemand={}), "prices"),
        (lambda d: next(iter(d["terms"]["OnDemand"].values())).pop("priceDimensions"), "'priceDimensions'"),
        (lambda d: dimension(d).pop("pricePerUnit"), "'pricePerUnit'"),
        (lambda d: dimension(d).update(pricePerUnit={"CNY": "1.0"}), "'USD'"),
        (lambda d: dimension(d)["pricePerUnit"].update(USD="free"), "'free'"),
        (lambda d: dimension(d)["pricePerUnit"].update(USD="NaN"), "nan"),
        (lambda d: dimension(d)["pricePerUnit"].update(USD="-1"), r"-1\.0"),
        (lambda d: dimension(d).update(unit="Seconds"), "seconds"),
        (lambda d: d.pop("publicationDate"), "'publicationDate'"),
        (lambda d: d.update(publicationDate="soon"), "'soon'"),
    ],
)
def test_faulty_product_is_named_by_sku(client, home: Path, spoil, named):
    spoilt = copy.deepcopy(product())
    spoil(spoilt)
    with pytest.raises(DataError, match=f"ABCDEFGH12345678: .*{named}"):
        asked(client, page(product(), spoilt))
    assert not refreshed_path("us-east-1").exists()


@pytest.mark.parametrize("text", ["{", "[]", "3", '"x"', "null", '{"product": []}'])
def test_what_is_no_product_is_refused(text):
    with pytest.raises(DataError):
        price_list._product(text)


def test_unreachable_aws_names_a_remedy():
    class Failing:
        def get_products(self, **request: Any) -> None:
            raise wrong.EndpointConnectionError(endpoint_url="https://x")

    with pytest.raises(NotReady, match="--file FILE"):
        price_list.ask("us-east-1", Failing(), FakeClock())


def test_endless_list_ends_at_the_deadline():
    clock = FakeClock()

    class Endless:
        def get_products(self, **request: Any) -> dict[str, Any]:
            clock.sleep(10.0)
            return page(product(), following="more")

    with pytest.raises(NotReady):
        price_list.ask("us-east-1", Endless(), clock)
    assert clock.monotonic() < 200.0


def test_unknown_region_is_refused(client):
    with Stubber(client) as stub:
        stub.add_response("get_products", page())
        with pytest.raises(UsageError, match="xx-nowhere-1"):
            price_list.ask("xx-nowhere-1", client)
    with pytest.raises(UsageError, match=r"\.\./\.\./etc"):
        price_list.ask("../../etc", client)


def test_missing_boto3_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(UsageError, match=r"tfhet\[aws\]"):
        price_list.ask("us-east-1")

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
from tfhet.errors import DataError, NotReady, TfhetError, UsageError  # noqa: E402

REQUEST = {
    "ServiceCode": "AmazonSageMaker",
    "FormatVersion": "aws_v1",
    "Filters": [
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"},
        {"Type": "TERM_MATCH", "Field": "component", "Value": "Training"},
    ],
}


def product(usage: str = "USE1-Train:ml.c5.xlarge", usd: str = "0.2040000000", sku: str = "ABCDEFGH12345678") -> dict:
    """A document as AWS writes it, without attributes that nobody reads."""
    code = f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    return {
        "product": {
            "productFamily": "ML Instance",
            "attributes": {
                "regionCode": "us-east-1",
                "servicecode": "AmazonSageMaker",
                "vCpu": "4",
                "memory": "8 GiB",
                "instanceName": usage.rpartition(":")[2],
                "component": "Training",
                "location": "US East (N. Virginia)",
                "usagetype": usage,
                "operation": "RunInstance",
            },
            "sku": sku,
        },
        "serviceCode": "AmazonSageMaker",
        "terms": {
            "OnDemand": {
                f"{sku}.JRTCKXETXF": {
                    "priceDimensions": {
                        code: {
                            "unit": "Hrs",
                            "endRange": "Inf",
                            "description": f"${usd} per Training {usage} hour in US East (N. Virginia)",
                            "appliesTo": [],
                            "rateCode": code,
                            "beginRange": "0",
                            "pricePerUnit": {"USD": usd},
                        }
                    },
                    "sku": sku,
                    "effectiveDate": "2026-09-01T00:00:00Z",
                    "offerTermCode": "JRTCKXETXF",
                    "termAttributes": {},
                }
            }
        },
        "version": "20260924235959",
        "publicationDate": "2026-09-24T23:59:59Z",
    }


@pytest.fixture
def client() -> Any:
    return boto3.client("pricing", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")


def page(*products: dict, following: str | None = None) -> dict[str, Any]:
    texts = [json.dumps(each) for each in products]
    return {"FormatVersion": "aws_v1", "PriceList": texts, **({"NextToken": following} if following else {})}


def test_all_pages_are_asked_for_and_become_a_file_that_the_catalogue_reads(client, home: Path):
    spot = product("USE1-TrSpt:ml.c5.xlarge", "0.05")
    first = page(product(), spot, product("USE1-Train:ml.p3.2xlarge", "3.825"), following="more")
    second = page(product("USE1-Train:ml.inf9.xlarge", "1.0"), product("USE1-Train:ml.c5.xlarge", "0.0000000000"))
    with Stubber(client) as stub:
        stub.add_response("get_products", first, REQUEST)
        stub.add_response("get_products", second, {**REQUEST, "NextToken": "more"})
        path, found = catalogue.refresh("us-east-1", pricing=client)
        stub.assert_no_pending_responses()
    assert found.usd_per_hour == {"ml.c5.xlarge": 0.204, "ml.inf9.xlarge": 1.0, "ml.p3.2xlarge": 3.825}
    assert path == home / ".cache/tfhet/prices/us-east-1.yaml"
    price = catalogue.default().price("c5.xlarge")
    assert price == catalogue.Price(0.204, "us-east-1", TRAINING, "AWS Price List", datetime.date(2026, 9, 24))
    assert catalogue.default().price("c5.2xlarge").market == catalogue.EC2, "what AWS did not name stays as it was"


def test_a_file_can_be_named_and_is_replaced_whole(client, home: Path, tmp_path: Path):
    path = tmp_path / "new" / "prices.yaml"
    for usd in ("1.0", "2.0"):
        with Stubber(client) as stub:
            stub.add_response("get_products", page(product(usd=usd)), REQUEST)
            catalogue.refresh("us-east-1", path, client)
    assert catalogue.shipped().with_file(path).price("c5.xlarge").usd_per_hour == 2.0
    assert catalogue.default() is catalogue.shipped(), "only the file that was named is written"


def test_what_is_listed_twice_has_the_higher_price(client):
    with Stubber(client) as stub:
        stub.add_response("get_products", page(product(usd="2.61"), product(usd="2.6054")), REQUEST)
        assert price_list.ask("us-east-1", client).usd_per_hour == {"ml.c5.xlarge": 2.61}


@pytest.mark.parametrize("usage", ["Train:ml.c5.xlarge", "EU-Train:ml.c5.xlarge", "APS3-Train:ml.c5.xlarge"])
def test_a_region_may_have_any_prefix(usage):
    assert price_list._product(json.dumps(product(usage)))[0] == "ml.c5.xlarge"


@pytest.mark.parametrize(
    "usage", ["USE1-TrSpt:ml.c5.xlarge", "USE1-Host:ml.c5.xlarge", "USE1-Train:VolumeUsage.gp2", "USE1-Notebk:ml.t3.x"]
)
def test_what_is_no_training_is_left_out(usage):
    assert price_list._product(json.dumps(product(usage)))[0] == ""


def dimension(document: dict) -> dict:
    return next(iter(next(iter(document["terms"]["OnDemand"].values()))["priceDimensions"].values()))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda d: d["product"].pop("attributes"), "it has no 'attributes'"),
        (lambda d: d["product"]["attributes"].update(usagetype=3), "expected string"),
        (lambda d: d.pop("terms"), "it has no 'terms'"),
        (lambda d: d["terms"].update(OnDemand=[]), "'list' object has no attribute 'values'"),
        (lambda d: d["terms"].update(OnDemand={}), "its prices are missing"),
        (lambda d: next(iter(d["terms"]["OnDemand"].values())).pop("priceDimensions"), "it has no 'priceDimensions'"),
        (lambda d: dimension(d).pop("pricePerUnit"), "it has no 'pricePerUnit'"),
        (lambda d: dimension(d).update(pricePerUnit={"CNY": "1.0"}), "it has no 'USD'"),
        (lambda d: dimension(d)["pricePerUnit"].update(USD="free"), "could not convert string to float: 'free'"),
        (lambda d: dimension(d)["pricePerUnit"].update(USD="NaN"), r"its prices are \[nan\]"),
        (lambda d: dimension(d)["pricePerUnit"].update(USD="-1"), r"its prices are \[-1.0\]"),
        (lambda d: dimension(d).update(unit="Seconds"), "unit is seconds, not Hrs"),
        (lambda d: d.pop("publicationDate"), "it has no 'publicationDate'"),
        (lambda d: d.update(publicationDate="soon"), "Invalid isoformat string: 'soon'"),
    ],
)
def test_a_product_that_cannot_be_understood_is_named_by_its_sku(client, home: Path, spoil, says):
    spoilt = copy.deepcopy(product())
    spoil(spoilt)
    with Stubber(client) as stub:
        stub.add_response("get_products", page(product(), spoilt), REQUEST)
        with pytest.raises(DataError, match=f"SKU ABCDEFGH12345678: {says}"):
            catalogue.refresh("us-east-1", pricing=client)
    assert not refreshed_path("us-east-1").exists(), "nothing is written of a list with faults"


@pytest.mark.parametrize("text", ["{", "[]", "3", '"x"', "null", '{"product": []}'])
def test_what_is_no_product_at_all_is_refused(text):
    with pytest.raises(DataError, match="AWS's Price List"):
        price_list._product(text)


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        ("AccessDeniedException", UsageError, "AWS refused GetProducts: the credentials lack the right"),
        ("ExpiredTokenException", UsageError, "renew them"),
        ("UnrecognizedClientException", UsageError, "renew them"),
        ("InvalidSignatureException", UsageError, "renew them"),
        ("NotFoundException", TfhetError, "AWS refused GetProducts"),
    ],
)
def test_what_aws_refuses_is_told_with_what_to_do(client, code, kind, says):
    with Stubber(client) as stub:
        stub.add_client_error("get_products", code, "no", expected_params=REQUEST)
        with pytest.raises(kind, match=says):
            price_list.ask("us-east-1", client)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (wrong.NoCredentialsError(), UsageError, "run `aws configure`, or set AWS_PROFILE"),
        (wrong.PartialCredentialsError(provider="env", cred_var="key"), UsageError, "aws configure"),
        (wrong.ProfileNotFound(profile="me"), UsageError, "set AWS_PROFILE"),
        (wrong.EndpointConnectionError(endpoint_url="https://x"), NotReady, "with --file FILE, and bring FILE here"),
        (wrong.ConnectTimeoutError(endpoint_url="https://x"), NotReady, "out of reach"),
        (wrong.ReadTimeoutError(endpoint_url="https://x"), NotReady, "out of reach"),
        (wrong.DataNotFoundError(data_path="x"), UsageError, "cannot be asked"),
    ],
)
def test_no_credentials_and_no_network_are_told_with_what_to_do(error, kind, says):
    class Failing:
        def get_products(self, **request: Any) -> None:
            raise error

    with pytest.raises(kind, match=says):
        price_list.ask("us-east-1", Failing(), FakeClock())


def test_a_list_without_end_ends_at_the_deadline():
    clock = FakeClock()

    class Endless:
        def get_products(self, **request: Any) -> dict[str, Any]:
            clock.sleep(10.0)
            return page(product(), following="more")

    with pytest.raises(NotReady, match="more than 180 s"):
        price_list.ask("us-east-1", Endless(), clock)
    assert clock.monotonic() < 200.0


def test_a_region_without_prices_or_with_no_such_name_is_an_error(client):
    with Stubber(client) as stub:
        stub.add_response("get_products", page())
        with pytest.raises(UsageError, match="no prices of training in xx-nowhere-1: no such region"):
            price_list.ask("xx-nowhere-1", client)
    with pytest.raises(UsageError, match="like us-east-1"):
        price_list.ask("../../etc", client)


def test_without_boto3_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    with pytest.raises(UsageError, match=r"pip install 'tfhet\[aws\]'"):
        price_list.ask("us-east-1")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(UsageError, match=r"pip install 'tfhet\[aws\]'"):
        price_list.ask("us-east-1")

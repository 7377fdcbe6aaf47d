"""AWS's prices of training on SageMaker: its Price List, asked through boto3 and kept as a catalogue file."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tfhet.catalogue.catalogue import refreshed_path
from tfhet.catalogue.catalogue_file import REGION, CatalogueFile
from tfhet.catalogue.market_price import TRAINING
from tfhet.catalogue.product import Product
from tfhet.clock import SYSTEM, Clock
from tfhet.errors import NotReady, TfhetError, UsageError, shown
from tfhet.record import write_text

ENDPOINT_REGION = "us-east-1"
"""Region of the endpoint, whose list has the prices of all regions; few regions have an endpoint."""
CONNECT_S, READ_S, ATTEMPTS, WHOLE_S = 5, 30, 3, 180.0
"""Seconds for a connection and for an answer, maximum number of tries of a request, seconds for all requests."""
INSTALL = "boto3 is not installed: pip install 'tfhet[aws]'"


@dataclass(frozen=True)
class PriceList:
    """Training prices of one region."""

    region: str
    date: datetime.date
    """Day on which AWS published it."""
    usd_per_hour: Mapping[str, float]
    """USD per hour by type, in alphabetical order."""

    def to_yaml(self) -> str:
        """Returns the text of a catalogue file."""
        prices = {
            "region": self.region,
            "market": TRAINING,
            "source": "AWS Price List",
            "date": self.date,
            "usd_per_hour": dict(self.usd_per_hour),
        }
        about = f"# Written by `tfhet prices refresh --region {self.region}`, which replaces it.\n"
        return about + yaml.safe_dump({"prices": [prices]}, sort_keys=False)


def refresh(region: str, path: Path | None = None, client: Any = None) -> tuple[Path, PriceList]:
    """Asks AWS for the prices of a region and writes them to a file. Returns its path and the prices.

    The file is `path`, by default `refreshed_path(region)`, which the default catalogue reads. It is written whole or
    not at all. Raises as `ask`.
    """
    found = ask(region, client)
    text = found.to_yaml()
    CatalogueFile.parse(text, "what AWS answered")
    return write_text(path or refreshed_path(region), text), found


def ask(region: str, client: Any = None, clock: Clock = SYSTEM) -> PriceList:
    """Returns the training prices of a region. client: boto3's client of the service `pricing`.

    Raises UsageError (no boto3, no credentials or rights, no such region), NotReady (no network, or too slow) and
    DataError, which names the SKU, for an answer that cannot be understood.
    """
    if not REGION.fullmatch(region):
        raise UsageError(f"region {shown(region)}: give the name of a region, like us-east-1")
    try:
        import botocore.exceptions as wrong
    except ImportError:
        raise UsageError(INSTALL) from None
    no_credentials = (
        wrong.NoCredentialsError,
        wrong.PartialCredentialsError,
        wrong.CredentialRetrievalError,
        wrong.TokenRetrievalError,
        wrong.ProfileNotFound,
    )
    try:
        products = [Product.parse(text) for text in _documents(client or _client(), region, clock)]
    except no_credentials as error:
        raise UsageError(f"no AWS credentials ({error}): run `aws configure`, or set AWS_PROFILE") from None
    except wrong.ClientError as error:
        raise _refused(error.response.get("Error", {})) from None
    except (wrong.HTTPClientError, wrong.ConnectionError) as error:
        raise NotReady(
            f"AWS's Price List cannot be reached ({error}): try again; or ask where there is a network, with --file "
            f"FILE, and bring FILE here as {refreshed_path(region)}"
        ) from None
    except wrong.BotoCoreError as error:
        raise TfhetError(f"AWS's Price List could not be asked: {error}") from None
    return _price_list(region, [product for product in products if product and product.usd_per_hour > 0])


def _client() -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise UsageError(INSTALL) from None
    limits = Config(connect_timeout=CONNECT_S, read_timeout=READ_S, retries={"total_max_attempts": ATTEMPTS})
    return boto3.client("pricing", region_name=ENDPOINT_REGION, config=limits)


def _documents(client: Any, region: str, clock: Clock) -> Iterator[str]:
    """Yields the products of all pages, each as JSON text."""
    wanted = {"regionCode": region, "component": "Training"}
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]
    request: dict[str, Any] = {"ServiceCode": "AmazonSageMaker", "Filters": filters, "FormatVersion": "aws_v1"}
    until_s = clock.monotonic() + WHOLE_S
    while True:
        page = client.get_products(**request)
        yield from page.get("PriceList", ())
        if not page.get("NextToken"):
            return
        request["NextToken"] = page["NextToken"]
        if clock.monotonic() > until_s:
            raise NotReady(f"AWS's Price List took more than {WHOLE_S:g} s: try again")


def _refused(error: Mapping[str, Any]) -> TfhetError:
    code, message = str(error.get("Code", "?")), error.get("Message", "")
    if "AccessDenied" in code:
        return UsageError(f"AWS refused ({message}): the credentials need the right pricing:GetProducts")
    if any(word in code for word in ("Token", "Credential", "Signature", "UnrecognizedClient")):
        return UsageError(f"AWS refused the credentials ({code}: {message}): renew them, or set AWS_PROFILE")
    return TfhetError(f"AWS's Price List answered with an error ({code}: {message}): try again later")


def _price_list(region: str, products: list[Product]) -> PriceList:
    if not products:
        raise UsageError(f"AWS has no prices of training in {region}: no such region, or no training there")
    found: dict[str, float] = {}
    for product in products:  # of two prices of a type the higher one counts, so that no plan is too cheap
        found[product.instance_type] = max(product.usd_per_hour, found.get(product.instance_type, 0.0))
    return PriceList(region, max(product.published for product in products), dict(sorted(found.items())))

"""catalogue/catalogue.py: the content of a file, and its mistakes."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from tfhet.catalogue.catalogue import CatalogueFile
from tfhet.catalogue.instance_type import Instance, Price
from tfhet.errors import UsageError

WHOLE = """\
instances:
  ml.box.large: {vcpus: 16, memory_gib: 64, gpus: 2, gpu_kind: L4, gpu_memory_gib: 24}
  box.small:
    vcpus: 4
    memory_gib: 8.5
    network_gbit_per_s: 1
    network_burst_gbit_per_s: 10
prices:
  - region: us-east-1
    market: ec2
    source: our contract
    date: 2026-07-20
    usd_per_hour: {ml.box.large: 1.5, box.small: 0.17}
"""


def parse(text: str) -> CatalogueFile:
    return CatalogueFile.parse(text, "own.yaml")


def test_types_and_prices_are_read():
    file = parse(WHOLE)
    assert file.instances == {
        "ml.box.large": Instance("ml.box.large", 16, 64.0, gpus=2, gpu_kind="L4", gpu_memory_gib=24.0),
        "ml.box.small": Instance("ml.box.small", 4, 8.5, network_gbit_per_s=1.0, network_burst_gbit_per_s=10.0),
    }
    day = datetime.date(2026, 7, 20)
    assert file.prices == (
        ("ml.box.large", Price(1.5, "us-east-1", "ec2", "our contract", day)),
        ("ml.box.small", Price(0.17, "us-east-1", "ec2", "our contract", day)),
    )
    assert file.lines == {"ml.box.large": 13, "ml.box.small": 13}


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "instances: {}\n", "prices: []\n"])
def test_file_may_be_empty(text):
    assert parse(text) == CatalogueFile()


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("vcpus: 16", "vcpus: many", "2: instances: ml.box.large: vcpus"),
        ("vcpus: 16", "vcpus: 0", "2: instances: ml.box.large: vcpus"),
        ("vcpus: 16", "vcpus: 1.5", "2: instances: ml.box.large: vcpus"),
        *(
            ("memory_gib: 8.5", f"memory_gib: {odd}", "5: instances: box.small: memory_gib")
            for odd in ("-1", "nan", ".inf", "[8]", "{a: 8}", "", "!!float x", "!!int x", "2026-02-31", "9" * 5000)
        ),
        ("    memory_gib: 8.5\n", "", "4: instances: box.small: memory_gib"),
        ("memory_gib: 8.5", "ram: 8.5", "5: instances: box.small: the name 'ram'"),
        ("memory_gib: 8.5", "vcpus: 8", "5: instances: box.small: the name 'vcpus'"),
        ("gpus: 2, ", "", "2: instances: ml.box.large"),
        (", gpu_memory_gib: 24", "", "2: instances: ml.box.large"),
        ("burst_gbit_per_s: 10", "burst_gbit_per_s: 1", "4: instances: box.small"),
        ("    network_gbit_per_s: 1\n", "", "4: instances: box.small"),
        ("box.small:\n", "'box small':\n", "4: instances: box small"),
        ("box.small:\n", "box.large:\n", "4: instances: box.large"),
        ("instances:", "types:", "1: the name 'types'"),
        ("us-east-1", "virginia", "9: prices[0]: region"),
        ("market: ec2", "market: spot", "10: prices[0]: market"),
        ("our contract", "''", "11: prices[0]: source"),
        ("our contract", '"a\\nb"', "11: prices[0]: source"),
        ("2026-07-20", "2026-02-31", "12: prices[0]: date"),
        ("2026-07-20", "yesterday", "12: prices[0]: date"),
        ("    source: our contract\n", "", "9: prices[0]: source"),
        ("1.5, box.small: 0.17", "0", "13: prices[0]: usd_per_hour: ml.box.large"),
        ("1.5, box.small: 0.17", "1.5, box.large: 1.6", "13: prices[0]: usd_per_hour: box.large"),
        ("{ml.box.large: 1.5, box.small: 0.17}", "cheap", "13: prices[0]: usd_per_hour"),
        ("\nprices:", "\nprices: 3\nx:", "8: prices"),
    ],
)
def test_a_wrong_part_is_named_with_its_line(old: str, new: str, where: str) -> None:
    assert old in WHOLE
    with pytest.raises(UsageError) as caught:
        parse(WHOLE.replace(old, new, 1))
    assert all(mistake.startswith("own.yaml:") for mistake in caught.value.mistakes)
    assert any(mistake.startswith(f"own.yaml:{where} must be ") for mistake in caught.value.mistakes), caught.value


def test_two_prices_for_one_day_are_refused():
    again = WHOLE[WHOLE.index("  - region") :]
    with pytest.raises(UsageError, match=r"^own\.yaml:18: prices\[1\]: usd_per_hour: ml\.box\.large "):
        parse(WHOLE + again)
    assert len(parse(WHOLE + again.replace("2026-07-20", "2026-07-21")).prices) == 4


NEST = "a: &a0 {vcpus: 1}\n" + "".join(f"b{i}: &a{i + 1} [*a{i}, *a{i}, *a{i}]\n" for i in range(40))


@pytest.mark.parametrize("text", ["a: [", "\x00", "a: b: c", "- " * 5000, NEST], ids=len)
def test_other_texts_are_refused(text):
    with pytest.raises(UsageError, match=r"own\.yaml"):
        parse(text)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match=r"no\.yaml"):
        CatalogueFile.read(tmp_path / "no.yaml")

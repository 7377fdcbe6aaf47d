"""catalogue/catalogue_file.py and yaml_file.py: what a file says, and where it is wrong."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st

from tfhet.catalogue.catalogue_file import CatalogueFile
from tfhet.catalogue.instance_type import MARKETS, Instance, Price
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


def test_a_file_says_types_and_prices():
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
def test_a_file_may_say_nothing(text):
    assert parse(text) == CatalogueFile()


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("vcpus: 16", "vcpus: many", 2, r"ml\.box\.large: vcpus must be a whole number from 1 .*'many'"),
        ("vcpus: 16", "vcpus: 0", 2, r"vcpus must be a whole number from 1 "),
        ("vcpus: 16", "vcpus: 1.5", 2, r"vcpus must be a whole number"),
        ("memory_gib: 8.5", "memory_gib: -1", 5, r"box\.small: memory_gib must be a number above 0"),
        ("memory_gib: 8.5", "memory_gib: nan", 5, r"memory_gib must be a number above 0"),
        ("memory_gib: 8.5", "memory_gib: [8]", 5, r"memory_gib must be a number above 0.*not a single value"),
        ("memory_gib: 8.5", "memory_gib:", 5, r"memory_gib must be a number above 0"),
        ("    memory_gib: 8.5\n", "", 4, r"box\.small: memory_gib must be given"),
        ("memory_gib: 8.5", "ram: 8.5", 5, r"the name 'ram' must be one of vcpus, memory_gib, gpus"),
        ("memory_gib: 8.5", "vcpus: 8", 5, r"the name 'vcpus' must be given once"),
        ("gpus: 2, ", "", 2, r"gpus, gpu_kind and gpu_memory_gib together, or none"),
        (", gpu_memory_gib: 24", "", 2, r"gpus, gpu_kind and gpu_memory_gib together, or none"),
        ("burst_gbit_per_s: 10", "burst_gbit_per_s: 1", 7, r"network_burst_gbit_per_s must be more than network_gbit"),
        ("    network_gbit_per_s: 1\n", "", 6, r"network_burst_gbit_per_s must be more than network_gbit_per_s, which"),
        ("box.small:\n", "'box small':\n", 4, r"'?box small'? must be called by a name of letters"),
        ("box.small:\n", "box.large:\n", 4, r"must be given once"),
        ("instances:", "types:", 1, r"the name 'types' must be one of instances, prices"),
        ("us-east-1", "virginia", 9, r"region must be the name of a region, like us-east-1; it is 'virginia'"),
        ("market: ec2", "market: spot", 10, r"market must be one of sagemaker training, ec2"),
        ("our contract", "''", 11, r"source must be 1 to 200 characters"),
        ("2026-07-20", "2026-02-31", 12, r"date must be a day, like 2026-07-20; it is '2026-02-31'"),
        ("2026-07-20", "yesterday", 12, r"date must be a day"),
        ("    source: our contract\n", "", 9, r"source must be given"),
        ("1.5, box.small: 0.17", "0", 13, r"usd_per_hour: ml\.box\.large must be a number above 0"),
        ("1.5, box.small: 0.17", "1.5, box.large: 1.6", 13, r"must be given once"),
        ("  - region", "   region", 9, r"must be a list|not YAML"),
        ("{ml.box.large: 1.5, box.small: 0.17}", "cheap", 13, r"usd_per_hour must be a mapping"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_what_it_must_be(old, new, line, says):
    assert old in WHOLE
    with pytest.raises(UsageError, match=says) as caught:
        parse(WHOLE.replace(old, new, 1))
    assert all(mistake.startswith("own.yaml:") for mistake in caught.value.mistakes)
    if "not YAML" not in str(caught.value):
        assert any(mistake.startswith(f"own.yaml:{line}: ") for mistake in caught.value.mistakes)


def test_two_prices_for_one_day_are_refused_wherever_they_stand():
    again = WHOLE[WHOLE.index("  - region") :]
    with pytest.raises(UsageError, match=r"own\.yaml:18: ml\.box\.large has a price in us-east-1 on this day already"):
        parse(WHOLE + again)
    assert len(parse(WHOLE + again.replace("2026-07-20", "2026-07-21")).prices) == 4


@pytest.mark.parametrize("text", ["a: [", "\x00", "a: b: c", "- " * 5000])
def test_what_is_no_yaml_is_said_to_be_none(text):
    with pytest.raises(UsageError, match=r"own\.yaml"):
        parse(text)


def test_aliases_of_aliases_take_no_time():
    nest = "a: &a0 {vcpus: 1}\n" + "".join(f"b{i}: &a{i + 1} [*a{i}, *a{i}, *a{i}]\n" for i in range(40))
    with pytest.raises(UsageError, match="must be one of instances, prices"):
        parse(nest)


def test_a_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path):
    with pytest.raises(UsageError, match=r"no\.yaml: this catalogue file cannot be read"):
        CatalogueFile.read(tmp_path / "no.yaml")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["instances", "prices", "vcpus", "memory_gib", "region", "market", "date", "usd_per_hour", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(VALUES)
def test_any_yaml_is_either_read_or_refused_with_the_files_name(value):
    text = yaml.safe_dump(value)
    refused = None
    try:
        file = parse(text)
    except UsageError as error:
        refused = error.mistakes
    if refused is None:
        assert all(price.market in MARKETS and price.usd_per_hour > 0 for _, price in file.prices)
    else:
        assert all(mistake.startswith("own.yaml") for mistake in refused)

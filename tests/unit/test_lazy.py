"""lazy.py: names of a package that are loaded when they are asked for."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = """
from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from NAME import tool
    from NAME.heavy import Heavy, light

lazy.names_on_demand(__name__)
"""

ROOMS = [
    "bench",
    "catalogue",
    "doctor",
    "follow",
    "submit",
    "native",
    "plan",
    "profile",
    "report",
    "simulate",
    "source",
]


@pytest.fixture
def package(tmp_path, monkeypatch, request):
    """A package with such names: two of its module `heavy`, and its module `tool`."""
    name = f"lazy_{abs(hash(request.node.name))}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE.replace("NAME", name))
    (folder / "heavy.py").write_text("class Heavy: pass\ndef light(): return 1\n")
    (folder / "tool.py").write_text("size = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = importlib.import_module(name)
    yield found
    for each in [each for each in sys.modules if each.split(".")[0] == name]:
        del sys.modules[each]


def test_a_module_is_loaded_by_the_first_use_of_one_of_its_names(package):
    assert f"{package.__name__}.heavy" not in sys.modules
    assert package.light() == 1
    assert package.Heavy is sys.modules[f"{package.__name__}.heavy"].Heavy
    assert f"{package.__name__}.tool" not in sys.modules
    assert package.tool.size == 3


def test_what_is_set_is_what_is_found_until_it_is_taken_back(package, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(package, "light", lambda: 7)
        assert package.light() == 7
    assert package.light() == 1


def test_another_name_is_missing_as_it_is_in_any_package(package):
    with pytest.raises(AttributeError, match="has no attribute 'dark'"):
        _ = package.dark
    assert {"Heavy", "light", "tool"} <= set(dir(package))


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_of_a_lazy_room_can_be_loaded_and_no_sub_module_hides_it(room):
    facade = importlib.import_module(f"tfhet.{room}")
    modules = {path.stem for path in Path(str(facade.__file__)).parent.glob("*.py")}
    assert set(facade.__all__) <= set(dir(facade))
    for name in facade.__all__:
        assert isinstance(getattr(facade, name), ModuleType) or name not in modules

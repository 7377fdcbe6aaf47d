"""lazy.py: names of a package that are loaded when asked for."""

from __future__ import annotations

import importlib
import sys

import pytest

PACKAGE = """
from __future__ import annotations

from typing import TYPE_CHECKING

from tfhet import lazy

if TYPE_CHECKING:
    from {name} import tool
    from {name}.heavy import Heavy, light
    from {name}.twin import twin

__all__ = ["Heavy", "light", "tool", "twin"]

lazy.names_on_demand(__name__)
"""

FACADES = ["bench", "catalogue", "doctor", "plan", "profile", "report", "simulate", "source"]


@pytest.fixture
def package(tmp_path, monkeypatch, request):
    """A package with such names: two of `heavy`, its module `tool`, and a function with the name of its module."""
    name = f"lazy_{abs(hash(request.node.name))}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE.format(name=name))
    (folder / "heavy.py").write_text("class Heavy: pass\ndef light(): return 1\n")
    (folder / "tool.py").write_text("size = 3\n")
    (folder / "twin.py").write_text("def twin(): return 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = importlib.import_module(name)
    yield found
    for each in [each for each in sys.modules if each.split(".")[0] == name]:
        del sys.modules[each]


def test_a_module_is_loaded_by_the_first_use_of_one_of_its_names(package):
    assert f"{package.__name__}.heavy" not in sys.modules
    assert package.light() == 1
    assert package.Heavy is sys.modules[f"{package.__name__}.heavy"].Heavy
    assert f"{package.__name__}.twin" not in sys.modules


def test_a_module_of_the_package_may_be_such_a_name(package):
    assert package.tool.size == 3


def test_a_function_keeps_its_name_also_where_a_module_has_the_same(package):
    module = importlib.import_module(f"{package.__name__}.twin")
    assert package.twin() == module.twin() == 2


def test_what_is_set_is_what_is_found_until_it_is_taken_back(package, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(package, "light", lambda: 7)
        assert package.light() == 7
    assert package.light() == 1


def test_another_name_is_missing_as_it_is_in_any_package(package):
    with pytest.raises(AttributeError, match="has no attribute 'dark'"):
        _ = package.dark
    assert {"Heavy", "light", "tool", "twin"} <= set(dir(package))


@pytest.mark.parametrize("room", FACADES)
def test_every_public_name_of_a_lazy_room_is_one_that_can_be_loaded(room):
    facade = importlib.import_module(f"tfhet.{room}")
    homes = vars(type(facade))
    assert set(facade.__all__) <= set(homes), "imported under TYPE_CHECKING"
    if room != "source":  # loads TensorFlow
        for name in facade.__all__:
            assert getattr(facade, name) is getattr(importlib.import_module(homes[name].home), name)

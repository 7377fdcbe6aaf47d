"""Files whose functions a feed may run."""

from __future__ import annotations

import dataclasses
import os
import sys
from importlib.machinery import ModuleSpec

import pytest

from tfhet.errors import UsageError
from tfhet.planes.feed.code import CodeFolders
from tfhet.planes.feed.source import FeedSource


@pytest.fixture
def code(tmp_path, monkeypatch) -> CodeFolders:
    """The folders of a process with a script in tmp_path/scripts and PYTHONPATH=tmp_path/lib."""
    for folder in ("scripts", "lib", "elsewhere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "scripts" / "link.py").symlink_to("/etc/passwd")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "lib")])
    return CodeFolders(str(tmp_path / "scripts" / "train.py"))


@pytest.mark.parametrize(
    ("module", "file"),
    [
        ("", "{here}/scripts/train.py"),
        ("data.images", "{here}/scripts/data/images.py"),
        ("data", "{here}/lib/data/__init__.py"),
        ("data", "{here}/lib/data.cpython-311-x86_64-linux-gnu.so"),
        ("numpy.random", "{numpy}/random/__init__.py"),
    ],
    ids=["script", "below it", "PYTHONPATH", "compiled", "installed"],
)
def test_functions_of_the_job_are_run(code, tmp_path, module, file):
    place = file.format(here=tmp_path, numpy=os.path.dirname(sys.modules["numpy"].__file__))
    code.check(FeedSource(module, place, "make"))


@pytest.mark.parametrize(
    ("module", "file"),
    [
        ("", "{here}/elsewhere/evil.py"),
        ("evil", "{here}/elsewhere/evil.py"),
        ("", "{here}/scripts/../elsewhere/evil.py"),
        ("", "{here}/scripts/link.py"),
        ("", os.__file__),
        ("os", os.__file__),
        ("os", "{here}/scripts/os.py"),
        ("subprocess", "{here}/scripts/data.py"),
        ("data", "{here}/scripts/other.py"),
    ],
    ids=["file", "module", "dots", "link", "standard file", "standard module", "its name", "other name", "misnamed"],
)
def test_other_functions_are_refused(code, tmp_path, module, file):
    place = file.format(here=tmp_path)
    good = FeedSource("", str(tmp_path / "scripts" / "train.py"), "make")
    collate = {"module": module, "file": place, "function": "call"}
    for source in (FeedSource(module, place, "make"), dataclasses.replace(good, collate=collate)):
        with pytest.raises(UsageError):
            code.check(source)


def test_editable_package_of_an_import_hook_is_run(code, tmp_path, monkeypatch):
    class Hook:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name != "edited":
                return None
            spec = ModuleSpec(name, None, is_package=True)
            spec.submodule_search_locations = [str(tmp_path / "elsewhere" / "edited")]
            return spec

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Hook])
    file = str(tmp_path / "elsewhere" / "edited" / "data.py")
    code.check(FeedSource("edited.data", file, "make"))
    with pytest.raises(UsageError):
        code.check(FeedSource("other.data", file, "make"))

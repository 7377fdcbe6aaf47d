"""Patches of `tfhet try`: what becomes of a script, for calls that are written in many ways."""

import ast
from pathlib import Path

import pytest

from tfhet.watching.patch import Patch

IMPORTED = "import torch\nimport tfhet.torch\n"


def place_of(source: str, name: str, file: Path) -> dict | None:
    """Returns the place of the call of a function, as Python's code objects state it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
            span = {"line": node.lineno, "column": node.col_offset}
            return {"file": str(file), **span, "end_line": node.end_lineno, "end_column": node.end_col_offset}
    return None


@pytest.fixture
def patched(tmp_path, monkeypatch):
    """Returns a function that patches a script by `patch`, and returns its new text and what is left to do by hand."""
    import subprocess

    monkeypatch.chdir(tmp_path)

    def run(source: str, changes: dict) -> tuple[str, list[str]]:
        file = tmp_path / "train.py"
        file.write_bytes(source.encode())
        names = {"loader": "DataLoader", "transform": "Compose", "dataset": "ImageFolder"}
        patch = Patch.of(changes, {key: place_of(source, name, file) for key, name in names.items()})
        words = ["patch", "-p1", "-s"]
        subprocess.run(words, input=patch.text(tmp_path).encode(), check=True, timeout=30)
        ast.parse(file.read_bytes())
        return file.read_bytes().decode(), patch.by_hand

    return run


@pytest.mark.parametrize(
    ("before", "after", "by_hand"),
    [
        ("DataLoader(data, 8)", "DataLoader(data, 8, num_workers=4)", 0),
        ("DataLoader(data, num_workers=0)", "DataLoader(data, num_workers=4)", 0),
        ("DataLoader(data, num_workers=args.n)", "DataLoader(data, num_workers=4)", 1),
        ("DataLoader(d, 8, True, None, None, 0)", "DataLoader(d, 8, True, None, None, 4)", 0),
        ("DataLoader(d, 8, **kw)", 'DataLoader(d, 8, **{**kw, "num_workers": 4})', 0),
        ("DataLoader(*some)", "DataLoader(*some, num_workers=4)", 0),
        ("DataLoader(\n    data,\n    8,\n)", "DataLoader(\n    data,\n    8, num_workers=4,\n)", 0),
        ("DataLoader('ä', 8); DataLoader(2)", "DataLoader('ä', 8, num_workers=4); DataLoader(2)", 0),
        ("DataLoader(data, 8)\r", "DataLoader(data, 8, num_workers=4)\r", 0),
    ],
)
def test_workers_are_set_in_any_call(patched, before, after, by_hand):
    text, rest = patched(f"import torch\nx = {before}\n", {"num_workers": 4})
    assert text == f"import torch\nx = {after}\n"
    assert len(rest) == by_hand


def test_transform_is_wrapped_and_files_are_read(patched):
    source = 'import torch\n\nt = Compose([\n    A(),\n    B(),\n])\ndata = ImageFolder("train", t)\n'
    text, rest = patched(source, {"transform": True, "read_file": True})
    wrapped = "tfhet.torch.from_torchvision(Compose([\n    A(),\n    B(),\n]))"
    call = 'ImageFolder("train", t, loader=tfhet.torch.read_file)'
    assert text == f"{IMPORTED}\nt = {wrapped}\ndata = {call}\n"
    assert rest == []


def test_loader_becomes_a_pipeline(patched):
    source = (
        'import torch\ndef main():\n    loader = DataLoader(data, batch_size=args.b, shuffle=True)\n    print("end")\n'
    )
    changes = {"pipeline": "decode(); resize(8, 8)", "arguments": {"shuffle": True, "drop_last": False}}
    text, rest = patched(source, changes)
    assert text == (
        f"{IMPORTED}def main():\n"
        "    loader = tfhet.torch.loader(\n"
        "        tfhet.Pipeline(\n"
        "            tfhet.FileList(data.samples),\n"
        '            "decode(); resize(8, 8)",\n'
        "            batch_size=args.b, shuffle=True,\n"
        "        )\n"
        "    )\n"
        '    print("end")\n'
    )
    assert rest == []


def test_import_follows_docstring_and_future(patched):
    text, _ = patched('"""About."""\nfrom __future__ import annotations\nt = Compose([A()])\n', {"transform": True})
    assert text.splitlines()[:3] == ['"""About."""', "from __future__ import annotations", "import tfhet.torch"]
    text, _ = patched('"""About."""\nt = Compose([A()])\n', {"transform": True})
    assert text.splitlines() == [
        '"""About."""',
        "import tfhet.torch",
        "t = tfhet.torch.from_torchvision(Compose([A()]))",
    ]


def test_unknown_places_are_left_to_the_reader(patched):
    changes = {"num_workers": 4, "transform": True, "read_file": True, "pipeline": "decode()", "arguments": {}}
    text, rest = patched("x = 1\n", changes)
    assert text == "x = 1\n"
    assert len(rest) == 4
    text, rest = patched("x = DataLoader(data, **more)\n", {"pipeline": "decode()", "arguments": {}})
    assert text == "x = DataLoader(data, **more)\n"
    assert len(rest) == 1


def test_file_outside_of_the_folder_has_its_own(tmp_path):
    file = tmp_path / "a" / "train.py"
    file.parent.mkdir()
    file.write_text("DataLoader(data)\n")
    patch = Patch.of({"num_workers": 1}, {"loader": place_of("DataLoader(data)", "DataLoader", file)})
    assert patch.folder(tmp_path) == tmp_path
    assert patch.folder(tmp_path / "b") == file.parent
    assert patch.text(file.parent).startswith("--- a/train.py\n+++ b/train.py\n")

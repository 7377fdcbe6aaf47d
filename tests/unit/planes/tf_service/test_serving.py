from __future__ import annotations

import pytest

from tfhet.planes.tf_service.serving import NAME, Serving


@pytest.mark.parametrize("told", [Serving(("algo-1", "algo-2")), Serving((), False)])
def test_what_the_launcher_says_is_what_the_script_reads(tmp_path, told):
    told.write(tmp_path / "record")
    assert Serving.read(tmp_path / "record") == told
    assert [path.name for path in (tmp_path / "record").iterdir()] == [NAME]


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"hosts": 3, "is_complete": true}', '{"hosts": []}'])
def test_what_cannot_be_read_says_nothing(tmp_path, content):
    (tmp_path / NAME).write_text(content)
    assert Serving.read(tmp_path) is None
    assert Serving.read(tmp_path / "none") is None
    assert Serving.read(None) is None

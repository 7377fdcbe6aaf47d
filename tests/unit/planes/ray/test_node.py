"""The process of a Ray node."""

from __future__ import annotations

from tfhet.planes.ray import node, private


def test_ray_is_imported_before_there_are_several_threads(monkeypatch, tmp_path):
    done: list[str] = []
    for module, name in ((private, "load"), (node, "_report"), (private, "run")):
        monkeypatch.setattr(module, name, lambda *given, name=name: done.append(name))
    place = ["--head_at", "127.0.0.1:1", "--ip", "127.0.0.1", "--port", "2", "--wait_s", "1", "--folder", str(tmp_path)]
    node.main([*place, "--", "start", "--head"])
    assert done[0] == "load" and "run" in done

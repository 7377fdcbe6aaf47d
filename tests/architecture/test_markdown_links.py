from __future__ import annotations

from markdown_links import dead_links, heading_anchors


def test_dead_links_are_found():
    files = {"docs/run.md": "# How to run\n## It's `one` run\n```\n# not a heading\n```\n", "docs": "", "plot.png": ""}
    text = """[a](run.md) [b](run.md#its-one-run) [c](../plot.png "plot") [d](https://host.example/x) [e](#top)
`[f](no.md)`
# Top
[g](gone.md) [h](run.md#not-a-heading) ![i](../gone.png) [j](#bottom)
```
[k](gone.md)
```
"""
    breaches = dead_links("docs/index.md", text, lambda path: text if path == "docs/index.md" else files.get(path))
    assert [breach.split()[-1] for breach in breaches] == [
        "gone.md", "run.md#not-a-heading", "../gone.png", "#bottom",
    ]  # fmt: skip
    assert heading_anchors("# A b\n# A b\n") == {"a-b", "a-b-1"}

"""container/mountinfo.py: what is mounted."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfhet.container.mountinfo import OURS, Mounted, mounted

words = st.text(st.characters(codec="utf-8") | st.sampled_from(" \\\t\n\r"), min_size=1)
paths = words.map("/{}".format)


def escaped(word: str) -> str:
    """As the kernel writes it."""
    return "".join(f"\\{ord(letter):03o}" if letter in " \t\n\\" else letter for letter in word)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.builds(Mounted, paths, st.just("8:1"), paths, words, words, words)), st.integers(0, 2))
def test_every_mount_is_read_as_it_is(mounts: list[Mounted], tags: int) -> None:
    lines = []
    for each in mounts:
        point, device, root, kind, source, options = map(
            escaped, (each.point, each.device, each.root, each.kind, each.source, each.options)
        )
        extra = "".join(f" shared:{tag}" for tag in range(tags))
        lines.append(f"36 35 {device} {root} {point} rw,noatime{extra} - {kind} {source} {options}\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mountinfo"
        path.write_text("".join(lines), encoding="utf-8")
        assert mounted(path) == mounts


def test_lines_that_are_none_and_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "mountinfo"
    path.write_bytes(b"\n36 35\n36 35 8:1 / /odd\xff rw - ext4 /dev/sda rw\n36 35 8:1 / /short rw - ext4\n")
    assert [each.point for each in mounted(path)] == ["/odd\udcff"]


@pytest.mark.skipif(not OURS.exists(), reason="no Linux")
def test_our_own_root_is_mounted() -> None:
    assert "/" in [each.point for each in mounted()]

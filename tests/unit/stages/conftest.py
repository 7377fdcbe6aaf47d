"""Fixtures for what is done by compiled ops where they can be had, and by plain TensorFlow operations elsewhere."""

from __future__ import annotations

import pytest

from tfhet import native


@pytest.fixture(params=["native", pytest.param("plain", marks=pytest.mark.plain)])
def backend(request, monkeypatch) -> str:
    """A test that uses it runs twice: with the compiled ops, and without them (marked `plain`)."""
    if request.param == "native" and not native.available("tone"):
        pytest.skip("compiled ops cannot be built here")
    monkeypatch.setenv("TFHET_NATIVE", "auto" if request.param == "native" else "off")
    return request.param

from __future__ import annotations

import json

import pytest

from tfhet.control import Secret, new_secret
from tfhet.errors import UsageError

TEXT = "correct horse battery staple"


def test_secret_is_in_the_environment_or_a_hyperparameter():
    given = Secret.from_env({"TFHET_SECRET": TEXT}, "job", ["a"])
    assert not given.derived
    assert given == Secret.from_env({"SM_HP_TFHET_SECRET": TEXT}, "other", ["b"]) == Secret.from_text(TEXT)


def test_secret_is_else_derived_from_the_job():
    derived = Secret.from_env({}, "job", ["b", "a"])
    assert derived.derived
    assert derived == Secret.derive("job", ["a", "b"])
    others = [Secret.derive("job", ["a"]), Secret.derive("jo", ["b", "a"]), Secret.derive("job", ["ab"])]
    assert derived not in others
    assert Secret.from_env({"TFHET_SECRET": ""}, "job", ["a", "b"]) == derived


def test_a_secret_is_never_shown():
    secret = Secret.from_text(TEXT)
    for shown in (repr(secret), str(secret), f"{secret}"):
        assert TEXT not in shown
        assert secret.key.hex() not in shown
        assert repr(secret.key) not in shown
    with pytest.raises(UsageError) as raised:
        Secret.from_text("too short")
    assert "too short" not in str(raised.value)


def test_new_secrets_differ_and_are_no_json():
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    for text in made:
        with pytest.raises(ValueError, match="Expecting value"):
            json.loads(text)
        Secret.from_text(text)

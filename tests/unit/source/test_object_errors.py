"""Errors of object stores: each names the URL, the cause, and the settings of its own provider."""

from __future__ import annotations

import emulators
import numpy as np
import pytest
from object_server import BUCKET, connected, environment
from test_tar import write_tar

from tfhet.errors import DataError, UsageError
from tfhet.source import ImageFolder, TarSource, index_file, object_store
from tfhet.source.object_errors import request_error

pytest.importorskip("obstore")
ACCOUNTS = {"s3": "AWS_REGION", "gs": "GOOGLE_BASE_URL", "az": "AZURE_STORAGE_ACCOUNT_NAME"}
CREDENTIALS = {"s3": "AWS_ACCESS_KEY_ID", "gs": "GOOGLE_APPLICATION_CREDENTIALS", "az": "AZURE_STORAGE_ACCOUNT_KEY"}
PERMISSIONS = {"s3": "s3:ListBucket", "gs": "storage.objects.list", "az": "Storage Blob Data Reader"}
schemes = pytest.mark.parametrize("scheme", CREDENTIALS)


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(object_store, "RETRIES", 0)
    (tmp_path / "a.tar").write_bytes(b"x" * 100)
    with connected(tmp_path, monkeypatch) as made:
        yield made


@schemes
def test_missing_bucket_is_named(server, scheme):
    with pytest.raises(
        DataError, match=f"{scheme}://other/.*404.*(NoSuchBucket|ContainerNotFound).*{ACCOUNTS[scheme]}"
    ):
        ImageFolder(f"{scheme}://other/data")


@schemes
def test_refusal_names_permissions_and_credentials(server, scheme):
    server.faults |= {"a.tar": "forbidden", "": "forbidden list"}
    for fails in (
        lambda: TarSource(f"{scheme}://{BUCKET}/*.tar"),
        lambda: object_store.read([f"{scheme}://{BUCKET}/a.tar"], [0], [5]),
    ):
        with pytest.raises(DataError, match=f"{scheme}://{BUCKET}/?.*403") as caught:
            fails()
        assert PERMISSIONS[scheme] in str(caught.value) and CREDENTIALS[scheme] in str(caught.value)


@schemes
def test_server_that_does_not_answer_is_named(server, scheme, monkeypatch):
    for name, value in environment("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    object_store._store.cache_clear()
    with pytest.raises(DataError, match=f"{scheme}://.*{ACCOUNTS[scheme]}.*network"):
        object_store.facts([f"{scheme}://{BUCKET}/a.tar"])


@pytest.mark.parametrize(
    ("scheme", "name", "value"),
    [
        ("az", "AZURE_STORAGE_ACCOUNT_NAME", None),
        ("az", "AZURE_STORAGE_ACCOUNT_KEY", "!"),
        ("gs", "GOOGLE_SERVICE_ACCOUNT", "/nothing.json"),
    ],
)
def test_wrong_settings_are_named(server, monkeypatch, scheme, name, value):
    monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with pytest.raises(UsageError, match=f"{scheme}://{BUCKET}/.*settings are wrong.*{CREDENTIALS[scheme]}"):
        object_store.facts([f"{scheme}://{BUCKET}/a.tar"])


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        ("s3", "Error performing PUT http://169.254.169.254/latest/api/token in 1 s"),
        ("gs", "Error performing token request: Error performing GET http://metadata/computeMetadata/v1"),
        ("az", "Error performing token request: Error performing GET http://169.254.169.254/metadata/identity/oauth2"),
    ],
)
def test_missing_credentials_are_named(scheme, text):
    error = request_error(f"{scheme}://bucket/a", Exception(f"{text} - status code: 403"), 1.0)
    assert error.path == f"{scheme}://bucket/a"
    assert "no credentials were found" in str(error) and CREDENTIALS[scheme] in str(error)


def test_urls_of_providers_need_no_credentials():
    for host in ("account.blob.core.windows.net", "s3.eu-west-1.amazonaws.com", "storage.googleapis.com"):
        assert type(object_store._store(f"https://{host}", 0)).__name__ == "HTTPStore"


@pytest.mark.skipif(not emulators.AZURITE_URL, reason="no TFHET_AZURITE_URL, see emulators.py")
def test_azurite_gives_the_same_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(index_file, "cache_dir", lambda _: tmp_path)
    for name, value in emulators.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    object_store._store.cache_clear()
    emulators.make_container()
    url = f"az://{emulators.BUCKET}/errors/a.tar"
    for label in (b"1", b"2"):  # the second one replaces the tar, with an index that is stale
        write_tar(tmp_path / "a.tar", [("0.png", b"image " + label), ("0.cls", label)])
        object_store.write(url, (tmp_path / "a.tar").read_bytes())
        source = TarSource(url)
        assert source.load(np.array([0]))["label"].tolist() == [int(label)]
        index_file.write_index(source.index_request(url))
    object_store.write(url, b"other")
    with pytest.raises(DataError, match="replaced"):
        source.load(np.array([0]))
    with pytest.raises(DataError, match="ContainerNotFound.*AZURE_STORAGE_ACCOUNT_NAME"):
        ImageFolder("az://nothing/data")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    object_store._store.cache_clear()
    with pytest.raises(DataError, match="403.*Storage Blob Data Reader"):
        ImageFolder(f"az://{emulators.BUCKET}/data")
    object_store._store.cache_clear()

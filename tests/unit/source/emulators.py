"""Emulators of Azure Blob Storage and Google Cloud Storage, if they run: Azurite and fake-gcs-server.

npm install azurite
npx azurite-blob --inMemoryPersistence --skipApiVersionCheck --disableTelemetry &
fake-gcs-server -backend memory -scheme http -host 127.0.0.1 -port 4443 -public-host 127.0.0.1:4443 &
TFHET_AZURITE_URL=http://127.0.0.1:10000 TFHET_FAKE_GCS_URL=http://127.0.0.1:4443 scripts/test tests/unit/source
"""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import os
import urllib.error
import urllib.request
from urllib.parse import quote

AZURITE_URL, GCS_URL = os.environ.get("TFHET_AZURITE_URL", ""), os.environ.get("TFHET_FAKE_GCS_URL", "")
BUCKET, ACCOUNT = "emulated", "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The public key of every Azurite."""
ENVIRONMENT = {
    "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
    "AZURE_STORAGE_ACCOUNT_KEY": KEY,
    "AZURE_STORAGE_ENDPOINT": f"{AZURITE_URL}/{ACCOUNT}",
    "GOOGLE_BASE_URL": GCS_URL,
    "GOOGLE_BEARER_TOKEN": "token",
}


def make_container() -> None:
    """Makes the container of Azurite, `az://emulated`, unless it exists."""
    path = f"/{ACCOUNT}/{BUCKET}"
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "\n".join(
        ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items()), f"/{ACCOUNT}{path}"]
        + ["restype:container"]
    )
    signature = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}", "Content-Length": "0"}
    _send("PUT", f"{AZURITE_URL}{path}?restype=container", b"", headers)


def make_gcs_bucket() -> None:
    """Makes the bucket of fake-gcs-server, `gs://emulated`, unless it exists."""
    _send("POST", f"{GCS_URL}/storage/v1/b?project=p", b'{"name": "%s"}' % BUCKET.encode(), {})


def put_gcs(name: str, content: bytes) -> None:
    """Writes an object; fake-gcs-server does not know the request by which the client writes."""
    place = f"{GCS_URL}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={quote(name, safe='')}"
    _send("POST", place, content, {})


def _send(method: str, url: str, content: bytes, headers: dict[str, str]) -> None:
    request = urllib.request.Request(url, content or None, headers, method=method)
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as error:
        if error.code != 409:  # it exists
            raise

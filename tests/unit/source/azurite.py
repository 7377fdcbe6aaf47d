"""Azurite, the emulator of Azure Blob Storage, if one runs.

npm install azurite
npx azurite-blob --inMemoryPersistence --skipApiVersionCheck --disableTelemetry &
TFHET_AZURITE_URL=http://127.0.0.1:10000 scripts/test tests/unit/source
"""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import os
import urllib.error
import urllib.request

URL = os.environ.get("TFHET_AZURITE_URL", "")
CONTAINER, ACCOUNT = "azurite", "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The public key of every Azurite."""
ENVIRONMENT = {
    "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
    "AZURE_STORAGE_ACCOUNT_KEY": KEY,
    "AZURE_STORAGE_ENDPOINT": f"{URL}/{ACCOUNT}",
}


def make_container() -> None:
    """Makes the container `az://azurite`, unless it exists."""
    path = f"/{ACCOUNT}/{CONTAINER}"
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "\n".join(
        ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items()), f"/{ACCOUNT}{path}"]
        + ["restype:container"]
    )
    signature = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}", "Content-Length": "0"}
    request = urllib.request.Request(f"{URL}{path}?restype=container", headers=headers, method="PUT")
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise

"""Messages for failed requests to object stores: what failed, for which URL, and what to do."""

from __future__ import annotations

import re
from typing import NamedTuple

from tfhet.errors import DataError, UsageError


class _Advice(NamedTuple):
    """Words for the stores of one provider."""

    credentials: str
    public: str
    """Setting for buckets that need no credentials."""
    read: str
    """Permissions to list and read objects."""
    write: str
    name: str
    """What to check if the bucket does not exist, or no server answers."""


_S3 = _Advice(
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role",
    "AWS_SKIP_SIGNATURE=true",
    "s3:GetObject and s3:ListBucket",
    "s3:PutObject",
    "the bucket's name, AWS_REGION and AWS_ENDPOINT_URL",
)
_GCS = _Advice(
    "GOOGLE_APPLICATION_CREDENTIALS=FILE.json, or a service account of the machine",
    "GOOGLE_SKIP_SIGNATURE=true",
    "storage.objects.get and storage.objects.list",
    "storage.objects.create and storage.objects.delete",
    "the bucket's name and GOOGLE_BASE_URL",
)
_AZURE = _Advice(
    "AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN or a managed identity",
    "AZURE_SKIP_SIGNATURE=true",
    "the role Storage Blob Data Reader",
    "the role Storage Blob Data Contributor",
    "the container's name, AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ENDPOINT",
)
_BY_SCHEME = {"s3": _S3, "gs": _GCS, "az": _AZURE, "abfs": _AZURE, "abfss": _AZURE}
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>\s*(\w{1,80})\s*</Code>")
_BY_TYPE = {
    "FileNotFoundError": 404,
    "PermissionDeniedError": 403,
    "UnauthenticatedError": 401,
    "PreconditionError": 412,
    "NotSupportedError": 206,
}
_REMEDIES = {
    206: "the server has to support ranges (HTTP status 206)",
    412: "it was replaced after it had been indexed: start again",
    416: "it is shorter than its index: start again",
}
_NO_CREDENTIALS = re.compile(r"169\.254\.|/computeMetadata/|/metadata/identity|/latest/api/token")
"""In the client's errors if it found no credentials in the environment and requested some from the machine."""


def request_error(url: str, error: Exception, limit_s: float, is_write: bool = False) -> DataError:
    """Returns the error of a failed request.

    Args:
        error: What the client raised.
        limit_s: Deadline of the request in seconds.
        is_write: Whether the request was to write the object.
    """
    if isinstance(error, TimeoutError):
        return DataError(f"{url} did not arrive within {limit_s:g} s: check {_place(url)}, and the network", url)
    verb = "written" if is_write else "read"
    return DataError(f"{url} cannot be {verb}: {_reason(error)}: {_remedy(url, error, is_write)}", url)


def replaced_error(url: str) -> DataError:
    """Returns the error of an object whose content is not the content that was indexed."""
    return DataError(f"{url} cannot be read: {_REMEDIES[412]}", url)


def store_error(root: str, error: Exception) -> UsageError:
    """Returns the error of a store that cannot be set up from its URL and the environment."""
    wrong = f"{root}/ is no URL of an object store, or its settings are wrong: {_reason(error)}"
    return UsageError(f"{wrong}: check the URL, and {_setting(root)}")


def _advice(url: str) -> _Advice | None:
    return _BY_SCHEME.get(url.partition(":")[0])


def _setting(url: str) -> str:
    if (advice := _advice(url)) is None:
        return "use s3://, gs:// or az:// with credentials if the object is not public"
    return f"set {advice.credentials}; {advice.public} for public data"


def _place(url: str) -> str:
    advice = _advice(url)
    return advice.name if advice else "the host and port of the URL"


def _remedy(url: str, error: Exception, is_write: bool) -> str:
    advice, text = _advice(url), str(error)
    stated, code = _STATUS.search(text), _CODE.search(text)
    status = _BY_TYPE.get(type(error).__name__) or (int(stated[1]) if stated else 0)
    if _NO_CREDENTIALS.search(text):
        return f"no credentials were found: {_setting(url)}"
    if status == 404:
        is_object = code is None or code[1] in ("NoSuchKey", "BlobNotFound")
        return "check the URL (bucket and path)" if is_object else f"check {_place(url)}"
    if status in (401, 403):
        permissions = (
            f"check that the credentials have {advice.write if is_write else advice.read}, or " if advice else ""
        )
        return f"{permissions}{_setting(url)}"
    if status in _REMEDIES:
        return _REMEDIES[status]
    return f"check {_place(url)}, the credentials, and the network"


def _reason(error: Exception) -> str:
    """Returns the client's error without its inner values and without XML, in a line of at most 300 characters."""
    whole = str(error).partition("\n\n")[0]
    code = _CODE.search(whole)
    text = " ".join(re.split(r"<\?xml|<Error|<html|<!DOCTYPE", whole, maxsplit=1)[0].split()).rstrip(": ")
    text = text if len(text) <= 300 else text[:297] + "..."
    return f"{text} ({code[1]})" if code else text

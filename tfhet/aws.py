"""Clients of AWS's services, and calls that are retried and whose errors say what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfhet import clock as clocks
from tfhet.errors import NotReady, TfhetError, UsageError
from tfhet.extras import needed

CONNECT_S, READ_S, ATTEMPTS = 5, 30, 3
"""Limits for a connection and for an answer, and the number of tries that boto3 makes by itself."""
PATIENCE_S = 180.0
"""Seconds for which a call is retried."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
"""Pause between two attempts, which doubles each time."""
_TRANSIENT = ("Internal", "LimitExceeded", "RequestLimit", "RequestTimeout", "ServiceUnavailable", "Throttl", "TooMany")
"""Beginnings of the codes of errors that pass, beside HTTP status 429 and those from 500 on."""
_IDENTITY = ("Token", "Credential", "Signature", "UnrecognizedClient")


class AwsRefused(TfhetError):
    """AWS refused a request. `code` is AWS's error code."""

    def __init__(self, message: str, code: str):
        super().__init__(message)
        self.code = code


def client(service: str, region: str | None = None) -> Any:
    """Returns boto3's client of a service. Raises UsageError without boto3, or where no region is configured."""
    with needed():
        import boto3
        import botocore.exceptions as wrong
        from botocore.config import Config
    limits = Config(connect_timeout=CONNECT_S, read_timeout=READ_S, retries={"total_max_attempts": ATTEMPTS})
    try:
        return boto3.client(service, region_name=region, config=limits)
    except wrong.NoRegionError:
        raise UsageError("no AWS region: give --region, or set AWS_REGION or AWS_PROFILE") from None
    except wrong.BotoCoreError as error:
        raise UsageError(f"AWS cannot be asked: {error}") from None


@dataclass(frozen=True)
class Patient:
    """Calls AWS, and retries while it is too busy or cannot be reached."""

    clock: clocks.Clock = clocks.SYSTEM
    patience_s: float = PATIENCE_S

    def __call__(self, call: Callable[..., Any], **request: Any) -> Any:
        """Returns the answer of `call`, a method of a boto3 client. Raises AwsRefused for what AWS refuses, UsageError
        without credentials or rights, and NotReady when it is still too busy, or out of reach, after `patience_s`."""
        import botocore.exceptions as wrong

        until_s, pause_s = self.clock.monotonic() + self.patience_s, FIRST_PAUSE_S
        while True:
            try:
                return call(**request)
            except wrong.ClientError as error:
                trouble: Exception = error
                if not _is_transient(error):
                    raise _refusal(error) from None
            except (wrong.HTTPClientError, wrong.ConnectionError) as error:
                trouble = error
            except wrong.BotoCoreError as error:
                what = "for credentials, run `aws configure`, or set AWS_PROFILE"
                raise UsageError(f"AWS cannot be asked ({error}): {what}") from None
            if self.clock.monotonic() + pause_s > until_s:
                raise NotReady(f"AWS was too busy or out of reach for {self.patience_s:g} s ({trouble}): try again")
            self.clock.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _is_transient(error: Any) -> bool:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return str(error.response["Error"].get("Code")).startswith(_TRANSIENT) or status == 429 or status >= 500


def _refusal(error: Any) -> TfhetError:
    code, message = (str(error.response["Error"].get(name, "?")) for name in ("Code", "Message"))
    if "AccessDenied" in code:
        return UsageError(f"AWS refused {error.operation_name}: the credentials lack the right to it ({message})")
    if any(word in code for word in _IDENTITY):
        return UsageError(f"AWS refused the credentials ({code}: {message}): renew them, or set AWS_PROFILE")
    return AwsRefused(f"AWS refused {error.operation_name} ({code}: {message})", code)

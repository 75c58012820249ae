"""What stores raise, turned into our errors."""

from __future__ import annotations

import os
import sys
from urllib.parse import urlsplit

from lance_df.errors import LanceError, NotFoundError, StorageError

# client errors that are no refusal: a time-out, and what the server may answer to a repeated request
_NO_REFUSALS = frozenset({408, 409, 412, 425, 429})

# of botocore
_NO_CREDENTIALS = frozenset(
    {
        *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "ProfileNotFound"),
        *("NoAuthTokenError", "TokenRetrievalError", "SSOTokenLoadError", "UnauthorizedSSOTokenError"),
    }
)
_NO_CONNECTION = frozenset({"EndpointConnectionError", "ConnectTimeoutError"})


class translate_errors:  # noqa: N801 - reads as a statement where it is used
    """Turn whatever a store raises into our errors, without repeating its text (it may hold credentials).

    Nor does a traceback repeat it: what the store said is in ``__context__`` only.

    The libraries behind fsspec have errors of their own (missing credentials, invalid options, protocol
    errors) that share no base, so every `Exception` is translated.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LanceError) or not isinstance(error, Exception):
            return
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise NotFoundError(f"{self._uri}: no such file or folder") from error
        number = error.errno if isinstance(error, OSError) else None
        reason = _advice(self._uri, error) or (os.strerror(number) if number else type(error).__name__)
        raise StorageError(f"{self._uri}: {reason}") from None


def _advice(uri: str, error: Exception) -> str | None:
    """Return what to do about an error of S3, or of a local path; None where it has a usual reason."""
    if "://" not in uri and isinstance(error, UnicodeEncodeError):
        return encoding_advice(error)
    if not uri.lower().startswith(("s3://", "s3a://")):
        return None
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & _NO_CREDENTIALS:
        return (
            f"{type(error).__name__}: there are no credentials; set the storage options access_key_id and "
            "secret_access_key (and session_token), the variables AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or a profile; skip_signature='true' reads a public bucket"
        )
    if "NoRegionError" in kinds:
        return "there is no region; set the storage option region, or the variable AWS_REGION"
    if kinds & _NO_CONNECTION:
        return (
            f"{type(error).__name__}: {_host_of(error)} does not answer; check the network, and the storage "
            "option endpoint_url"
        )
    if isinstance(error, PermissionError):
        return (
            "access is denied; check the storage options access_key_id, secret_access_key and session_token, "
            "and the region and the endpoint that they are for"
        )
    return None


def _host_of(error: Exception) -> str:
    """Return the server that a request of botocore was for, without the rest of its URL."""
    url = urlsplit(str(getattr(error, "kwargs", {}).get("endpoint_url", "")))
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{url.hostname}{port}" if url.hostname else "the server"


def encoding_advice(error: UnicodeEncodeError) -> str:
    """Return what to do about a path that the operating system takes no such text for."""
    encoding = sys.getfilesystemencoding()
    advice = (
        "" if encoding == "utf-8" else "; set the environment variable PYTHONUTF8=1, or a locale of UTF-8"
    )
    return (
        f"the path holds {error.object[error.start : error.end]!a:.60}, which has no bytes in {encoding}, "
        f"the encoding of names of files in this process{advice}"
    )


def http_status(error: BaseException | None) -> int | None:
    """Return the HTTP status that a failed request was answered with, wherever its library put it."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, dict):  # botocore
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            status = getattr(error, "status_code", None) or getattr(error, "code", None)
        if str(status).isdecimal():
            return int(str(status))
        error = error.__cause__
    return None


def was_refused(error: BaseException) -> bool:
    """Whether the store answered a write with a refusal, so that nothing was written.

    Not so when the request was repeated after an attempt without an answer: that one may have arrived.
    """
    if isinstance(error, FileNotFoundError | PermissionError):
        return True
    if isinstance(error, OSError) and str(error).startswith("Forbidden"):  # gcsfs reports it in words only
        return True
    response = getattr(error, "response", None)
    if isinstance(response, dict) and response.get("ResponseMetadata", {}).get("RetryAttempts"):
        return False
    status = http_status(error)
    return status is not None and 400 <= status < 500 and status not in _NO_REFUSALS

"""Translate the errors of stores into those of lance_df."""

from __future__ import annotations

import os
import sys
from urllib.parse import urlsplit

from lance_df.errors import LanceError, NotFoundError, StorageError

# client errors that are not a refusal: a time-out, and possible responses to a repeated request
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
    """Translate errors of a store into those of lance_df, without their text, which may hold credentials.

    Tracebacks do not show the text either: the original error is only in ``__context__``.

    The libraries below fsspec have their own errors (missing credentials, invalid options, protocol errors)
    without a common base, so every `Exception` is translated.
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
        reason = _advice(self._uri, error) or (os.strerror(number) if number else _kind_of(error))
        raise StorageError(f"{self._uri}: {reason}") from None


def _kind_of(error: Exception) -> str:
    status = http_status(error)
    return type(error).__name__ if status is None else f"{type(error).__name__}, HTTP status {status}"


def _advice(uri: str, error: Exception) -> str | None:
    """Return advice for an error of S3 or of a local path, or None for usual errors."""
    if "://" not in uri and isinstance(error, UnicodeEncodeError):
        return encoding_advice(error)
    if not uri.lower().startswith(("s3://", "s3a://")):
        return None
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & _NO_CREDENTIALS:
        return (
            f"{type(error).__name__}: no credentials found; set the storage options access_key_id and "
            "secret_access_key (and session_token), the variables AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or a profile; skip_signature='true' reads a public bucket"
        )
    if "NoRegionError" in kinds:
        return "no region found; set the storage option region, or the variable AWS_REGION"
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
    """Return advice for a path that the operating system cannot encode."""
    encoding = sys.getfilesystemencoding()
    advice = (
        "" if encoding == "utf-8" else "; set the environment variable PYTHONUTF8=1, or a locale of UTF-8"
    )
    return (
        f"the path contains {error.object[error.start : error.end]!a:.60}, which cannot be encoded as "
        f"{encoding}, the encoding of file names in this process{advice}"
    )


def http_status(error: BaseException | None) -> int | None:
    """Return the HTTP status of a failed request, wherever its library stores it."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, dict):  # botocore
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            names = ("status_code", "status", "code")  # aiohttp has the second one
            status = next((value for name in names if (value := getattr(error, name, None))), None)
        if str(status).isdecimal():
            return int(str(status))
        error = error.__cause__
    return None


def was_refused(error: BaseException) -> bool:
    """Whether the store refused a write, so that nothing was written.

    False if the request was repeated after an attempt without a response, which may have succeeded.
    """
    if isinstance(error, FileNotFoundError | PermissionError):
        return True
    if isinstance(error, OSError) and str(error).startswith("Forbidden"):  # gcsfs reports it only as text
        return True
    response = getattr(error, "response", None)
    if isinstance(response, dict) and response.get("ResponseMetadata", {}).get("RetryAttempts"):
        return False
    status = http_status(error)
    return status is not None and 400 <= status < 500 and status not in _NO_REFUSALS

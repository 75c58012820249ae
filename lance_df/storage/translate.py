"""What stores raise, turned into our errors."""

from __future__ import annotations

import os

from lance_df.errors import LanceError, NotFoundError, StorageError


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
        reason = os.strerror(number) if number else type(error).__name__
        raise StorageError(f"{self._uri}: {reason}") from None

"""Many small files by one call, of stores that take many requests at once by themselves."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lance_df.errors import LanceError
from lance_df.storage.location import one_request
from lance_df.storage.translate import translate_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.storage.location import Location


def fetch_together(
    files: Sequence[Location], sizes: Sequence[int] | None = None
) -> list[bytes | LanceError] | None:
    """Return what each file holds, or why it could not be read: by one call, which costs less than threads.

    How many requests are on their way at once is the store's to say (``batch_size`` of fsspec).

    Parameters
    ----------
    files
        At least one.
    sizes
        How many bytes of each are wanted; all, if nothing is said.

    Returns
    -------
    ``None`` for stores that send one request after the other, and where the call fails as a whole. The caller
    then reads the files one by one, which names the file that fails.
    """
    if files[0].is_local:  # to ask the filesystem would import what local files need not
        return None
    fs: Any = files[0].fs
    if not getattr(fs, "async_impl", False) or any(file.fs is not fs for file in files):
        return None
    starts: list[int | None] = [None if sizes is None else 0] * len(files)
    ends = [None] * len(files) if sizes is None else list(sizes)
    kind: Any = type(fs)
    options = one_request(kind) if sizes is None else {}
    with suppress(LanceError), translate_errors(files[0].uri):
        contents = fs.cat_ranges([file.path for file in files], starts, ends, on_error="return", **options)
        return [_translated(file, content) for file, content in zip(files, contents, strict=True)]
    return None


def _translated(file: Location, content: Any) -> bytes | LanceError:
    if not isinstance(content, BaseException):
        data: bytes = content
        return data
    try:
        with translate_errors(file.uri):
            raise content
    except LanceError as err:
        return err

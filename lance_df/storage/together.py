"""Read many small files with one call, from stores that send concurrent requests themselves."""

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
    """Return the content of each file or its error, with one call, which is faster than threads.

    The store determines the number of concurrent requests (``batch_size`` of fsspec).

    Parameters
    ----------
    files
        At least one.
    sizes
        How many bytes of each file to read; by default all.

    Returns
    -------
    ``None`` for stores that send requests sequentially, and if the call fails as a whole. The caller then
    reads the files one by one, so that the error names the file.
    """
    if files[0].is_local:  # using the filesystem would import modules that local files do not need
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

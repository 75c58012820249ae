"""The pages that encoders pass to the file writer."""

from __future__ import annotations

from typing import TypeAlias

from lance_df.records import dataclass

Buffer: TypeAlias = bytes | memoryview


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """One page of one column of a file.

    Attributes
    ----------
    encoding_url, encoding
        The type URL and the bytes of the page's encoding.
    buffers
        The buffers, in the order in which the encoding numbers them.
    num_rows
        ``Page.length``.
    joins_previous
        Whether the page has no content of its own, but extends the previous page of its column.
    """

    encoding_url: str
    encoding: bytes
    buffers: tuple[Buffer, ...]
    num_rows: int
    joins_previous: bool = False

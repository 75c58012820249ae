"""LZ4 and Zstandard with the framing of the format; the claimed size is checked before memory is allocated.

::

    lz4   u32 uncompressed size | raw LZ4 block
    zstd  u64 uncompressed size | zstd frame        or a bare zstd frame

Format: docs/format/general.md. An empty buffer means zero bytes.
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

from lance_df.errors import CorruptDataError, UnsupportedFeatureError

Scheme: TypeAlias = str
"""``"lz4"`` or ``"zstd"``."""

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_BARE_FLAG = 0x10
# The most bytes that one byte can expand to: a run of 255 in LZ4; a 4-byte RLE block of 128 KiB in Zstandard.
_MAX_RATIO = {"lz4": 255, "zstd": 32 * 1024}
_SLACK_BYTES = 128 * 1024
# Each LZ4 block ends with at least this many literal bytes.
_LZ4_LITERAL_TAIL = 5
_STREAM_BYTES = 1024 * 1024


def decompress(scheme: Scheme, buffer: bytes | pa.Buffer, *, max_bytes: int) -> pa.Buffer:
    """Decompress a buffer.

    Parameters
    ----------
    scheme
        ``"lz4"`` or ``"zstd"``.
    buffer
        Exactly the compressed buffer.
    max_bytes
        The most bytes that a valid result can have.

    Raises
    ------
    CorruptDataError
        The bytes cannot be decompressed, or claim a size above ``max_bytes`` or above what the scheme can
        reach.
    UnsupportedFeatureError
        The scheme is unknown.
    MemoryError
        There is no memory for the result.
    """
    data = pa.py_buffer(buffer)
    if scheme not in _MAX_RATIO:
        raise UnsupportedFeatureError(
            f"unknown compression scheme {scheme!r}; this release supports lz4 and zstd"
        )
    if data.size == 0:
        return data
    if scheme == "lz4":
        size, body = _prefix(data, 4)
        _check_size(scheme, size, data.size, max_bytes)
        return _decompress_lz4(body, size)
    if _is_bare_zstd(data):
        return _decompress_bare_zstd(data, max_bytes)
    size, body = _prefix(data, 8)
    _check_size(scheme, size, data.size, max_bytes)
    return _run_codec("zstd", body, size)


def compress(scheme: Scheme, buffer: bytes | pa.Buffer, *, level: int | None = None) -> bytes:
    """Compress and frame ``buffer``. ``level`` applies to Zstandard only."""
    data = pa.py_buffer(buffer)
    if scheme == "lz4":
        return data.size.to_bytes(4, "little") + pa.compress(data, codec="lz4_raw", asbytes=True)
    if scheme == "zstd":
        codec = pa.Codec("zstd", level)
        return data.size.to_bytes(8, "little") + codec.compress(data, asbytes=True)
    raise UnsupportedFeatureError(
        f"unknown compression scheme {scheme!r}; this release supports lz4 and zstd"
    )


def _prefix(data: pa.Buffer, num_bytes: int) -> tuple[int, pa.Buffer]:
    if data.size < num_bytes:
        raise CorruptDataError(
            f"a compressed buffer has {data.size} bytes, expected at least {num_bytes} for its size prefix"
        )
    return int.from_bytes(data.slice(0, num_bytes).to_pybytes(), "little"), data.slice(num_bytes)


def _check_size(scheme: Scheme, size: int, compressed_bytes: int, max_bytes: int) -> None:
    limit = min(max_bytes, compressed_bytes * _MAX_RATIO[scheme] + _SLACK_BYTES)
    if size > limit:
        raise CorruptDataError(
            f"{compressed_bytes} bytes of {scheme} declare a decompressed size of {size} bytes, expected at "
            f"most {limit}"
        )


def _run_codec(codec: str, body: pa.Buffer, size: int) -> pa.Buffer:
    try:
        return pa.decompress(body, decompressed_size=size, codec=codec)
    except MemoryError:  # also ArrowMemoryError, which is an ArrowException too
        raise
    except (OSError, pa.ArrowException) as err:
        raise CorruptDataError(f"{body.size} bytes of {codec} do not decompress to {size} bytes") from err


def _decompress_lz4(body: pa.Buffer, size: int) -> pa.Buffer:
    if size == 0:
        return pa.py_buffer(b"")
    tail = min(_LZ4_LITERAL_TAIL, size)
    if body.size < tail:
        raise CorruptDataError(
            f"{body.size} bytes of lz4 cannot hold {size} bytes, expected at least {tail} bytes"
        )
    result = _run_codec("lz4_raw", body, size)
    # The codec does not report that it wrote fewer bytes than the buffer has.
    if body.slice(body.size - tail).to_pybytes() != result.slice(size - tail).to_pybytes():
        raise CorruptDataError(f"{body.size} bytes of lz4 do not decompress to {size} bytes")
    return result


def _is_bare_zstd(data: pa.Buffer) -> bool:
    head = data.slice(0, min(5, data.size)).to_pybytes()
    return data.size < 8 or (head[:4] == _ZSTD_MAGIC and not head[4] & _ZSTD_BARE_FLAG)


def _decompress_bare_zstd(data: pa.Buffer, max_bytes: int) -> pa.Buffer:
    limit = min(max_bytes, data.size * _MAX_RATIO["zstd"] + _SLACK_BYTES)
    pieces: list[bytes] = []
    size = 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while size <= limit and (piece := stream.read(_STREAM_BYTES)):
                pieces.append(piece)
                size += len(piece)
    except MemoryError:
        raise
    except (OSError, pa.ArrowException) as err:
        raise CorruptDataError(f"{data.size} bytes are not a valid zstd frame") from err
    if size > limit:
        raise CorruptDataError(
            f"{data.size} bytes of zstd decompress to more than the expected {limit} bytes"
        )
    return pa.py_buffer(b"".join(pieces))

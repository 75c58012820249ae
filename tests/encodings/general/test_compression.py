"""Framing and size checks of lz4 and zstd."""

import contextlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings.general.codecs import compress, decompress
from lance_df.errors import CorruptDataError, InvalidInputError, LanceError, UnsupportedFeatureError
from lance_df.file.io import named_errors

SCHEMES = ["lz4", "zstd"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("data", [b"", b"a", b"abcdefgh", b"hello " * 1000, bytes(range(256)) * 40])
def test_round_trip(scheme: str, data: bytes) -> None:
    packed = compress(scheme, data)
    assert decompress(scheme, packed, max_bytes=len(data)).to_pybytes() == data


def test_lz4_bytes_by_hand() -> None:
    # u32 size 9; token 0x42: 4 literals, match of 2 + 4 = 6 bytes is too near the end, so use literals only:
    # token 0x90 = 9 literals, no match
    assert decompress("lz4", b"\x09\0\0\0\x90abcdefghi", max_bytes=9).to_pybytes() == b"abcdefghi"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_empty_buffer_is_no_bytes(scheme: str) -> None:
    assert decompress(scheme, b"", max_bytes=10).size == 0


def test_a_bare_zstd_frame_is_read() -> None:
    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "zstd") as out:  # streamed: the header does not tell the size
        out.write(b"hello " * 1000)
    bare = stream.getvalue().to_pybytes()
    assert decompress("zstd", bare, max_bytes=6000).to_pybytes() == b"hello " * 1000
    with pytest.raises(CorruptDataError, match="more than the expected 5999"):
        decompress("zstd", bare, max_bytes=5999)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_more_than_allowed_is_refused(scheme: str) -> None:
    with pytest.raises(CorruptDataError, match="declare a decompressed size of 6000"):
        decompress(scheme, compress(scheme, b"hello " * 1000), max_bytes=5999)


def test_an_absurd_claim_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(CorruptDataError, match="expected at most"):
        decompress("zstd", (1 << 60).to_bytes(8, "little") + b"\0" * 100, max_bytes=1 << 62)
    with pytest.raises(CorruptDataError, match="expected at most"):
        decompress("lz4", b"\xff\xff\xff\xff" + b"\0" * 100, max_bytes=1 << 62)


@pytest.mark.parametrize("claimed", [5998, 5999, 6001, 6005, 100_000])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_wrong_size_prefix_is_noticed(scheme: str, claimed: int) -> None:
    packed = bytearray(compress(scheme, b"hello " * 1000))
    packed[: 4 if scheme == "lz4" else 8] = claimed.to_bytes(4 if scheme == "lz4" else 8, "little")
    with pytest.raises(CorruptDataError):
        decompress(scheme, bytes(packed), max_bytes=1 << 20)


@pytest.mark.parametrize("body", [b"", b"\x10", b"\x10a", b"\x40abcd"])
def test_lz4_of_fewer_bytes_than_each_block_has(body: bytes) -> None:
    with pytest.raises(CorruptDataError, match="bytes of lz4"):
        decompress("lz4", b"\x05\0\0\0" + body, max_bytes=10)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_lack_of_memory_is_no_damage(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    packed = compress(scheme, b"hello " * 1000)

    def fail(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 6000 failed")

    monkeypatch.setattr(pa, "decompress", fail)
    with pytest.raises(InvalidInputError, match="f: the rows do not fit into memory"), named_errors("f"):
        decompress(scheme, packed, max_bytes=6000)


def test_an_unknown_scheme_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeatureError, match="brotli"):
        decompress("brotli", b"abc", max_bytes=10)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(data=st.binary(max_size=200))
def test_any_bytes_give_a_result_within_bounds_or_an_error(scheme: str, data: bytes) -> None:
    with contextlib.suppress(LanceError):
        assert decompress(scheme, data, max_bytes=1000).size <= 1000

"""JSONB against what pylance shows, and damaged documents."""

from __future__ import annotations

import contextlib
import json
import tempfile

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.file import LanceFileReader

import lance_df
from lance_df.encodings.jsonb import decode_jsonb, encode_jsonb
from lance_df.errors import CorruptDataError, InvalidInputError, LanceError, UnsupportedFeatureError

DOCUMENTS = [
    "null", "true", "false", "0", "-0", "1", "-1", "127", "-129", "65536", "9223372036854775808",
    "18446744073709551616", "1.0", "0.1", "-0.0", "1e15", "1e16", "123456789012345680", "1e-5", "1.5e-5",
    "1e-6", "1.25e-6", "-1e-3", "5e-324", "1.7976931348623157e308", "123456789.123456789", "9.5e15", "1e100",
    '""', '"a\\"b\\\\c\\/d\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\\u00e9\\ud83d\\ude00\\u2028"', "[]", "{}",
    "[1,[2,[]],{}]", '{"é": "x", "a b": [true, false, null]}', ' { "z" : 1 , "aa": 2, "b": {"c": [{}]} } ',
]  # fmt: skip


def test_text_is_what_pylance_shows(tmp_path) -> None:
    stored = pa.array([*DOCUMENTS, None, "1"])
    table = pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(), stored)})
    shown = lance.write_dataset(table, tmp_path / "t").to_table()["j"].combine_chunks().storage
    (path,) = (tmp_path / "t" / "data").iterdir()
    binaries = LanceFileReader(str(path)).read_all().to_table()["j"].combine_chunks()
    found = decode_jsonb(binaries)
    assert found.type == pa.string()
    assert found.to_pylist() == shown.to_pylist()


def test_numbers_that_json_has_not_are_shown_as_null() -> None:
    texts = ["NaN", "[Infinity, -Infinity]", '{"n": %s}' % ("1" * 400), '{"n": -1e400}', '{"n": 1.5}']
    table = pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts))})
    shown = ["null", "[null,null]", '{"n":null}', '{"n":null}', '{"n":1.5}']
    with tempfile.TemporaryDirectory() as folder:
        assert lance.write_dataset(table, folder).to_table()["j"].to_pylist() == shown
        ours = lance_df.dataset(folder)
        assert ours.to_table()["j"].to_pylist() == shown
        ours.optimize.compact_files()
        ours.update({"j": "j"})
        assert lance.dataset(folder).to_table()["j"].to_pylist() == shown
    for text in texts[:4]:
        with pytest.raises(InvalidInputError, match="cannot be stored as JSON"):
            encode_jsonb(pa.array([text]))


def test_a_document_by_hand() -> None:
    # object of 1; key entry: string of 1 byte; value entry: number of 2 bytes; "a"; uint8 7
    document = bytes.fromhex("400000011000000120000002615007")
    assert decode_jsonb(pa.array([document, None])).to_pylist() == ['{"a":7}', None]


def test_no_values() -> None:
    assert decode_jsonb(pa.array([], pa.large_binary())).to_pylist() == []


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\x20",
        bytes.fromhex("ffffffff"),  # no such kind
        bytes.fromhex("9fffffff"),  # half a billion items in no bytes
        bytes.fromhex("2000000010000005") + b"abc",  # string longer than the document
        bytes.fromhex("2000000010000001ff"),  # not UTF-8
        bytes.fromhex("2000000020000000"),  # number without a kind
        bytes.fromhex("4000000120000001200000010000"),  # a member called 0
        bytes.fromhex("400000010000000020000001") + b"\0",  # a member called null
    ],
)
def test_damage_is_noticed(document: bytes) -> None:
    with pytest.raises(CorruptDataError, match="JSONB"):
        decode_jsonb(pa.array([document], pa.large_binary()))


def test_deep_nesting_is_refused() -> None:
    document = bytes.fromhex("80000000")
    for _ in range(300):
        document = bytes.fromhex("80000001") + (0x50000000 + len(document)).to_bytes(4, "big") + document
    with pytest.raises(UnsupportedFeatureError, match="nested"):
        decode_jsonb(pa.array([document], pa.large_binary()))


@given(st.binary(max_size=60))
def test_any_bytes_give_json_or_an_error(document: bytes) -> None:
    with contextlib.suppress(LanceError):
        json.loads(decode_jsonb(pa.array([document], pa.large_binary()))[0].as_py())

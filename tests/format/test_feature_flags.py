"""Which feature flags open a table: the table of the format's chapter on flags, bit by bit."""

from __future__ import annotations

import pytest

from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.feature_flags import check_readable, check_writable


def check(reader: int, writer: int, *, mark: bool = False) -> None:
    check_readable(reader=reader, writer=writer, has_max_allocated_field_id=mark, source="m")


@pytest.mark.parametrize("bit", [1, 2, 4, 8, 16, 32, 128, 256, 1024, 2048, 16384])
def test_known_bits_open(bit):
    check(bit, bit)


@pytest.mark.parametrize("bit", [64, 512, 4096, 8192, 65536, 1 << 17, 1 << 40, 1 << 63])
def test_t73_unknown_reader_bits_are_refused_by_name(bit):
    with pytest.raises(UnsupportedFeatureError, match=rf"\b{bit}\b"):
        check(bit, bit)


@pytest.mark.parametrize("bit", [64, 512, 4096, 8192, 1 << 40])
def test_unknown_writer_bits_stop_writers_only(bit):
    check(0, bit)
    with pytest.raises(UnsupportedFeatureError, match=rf"\b{bit}\b"):
        check_writable(writer=bit, source="m")


@pytest.mark.parametrize("bit", [256, 1024, 16384, 65536])
def test_t73_paired_bits_in_one_word_are_corrupt(bit):
    for words in ((bit, 0), (0, bit)):
        with pytest.raises(CorruptDataError, match=str(bit)):
            check(*words)


def test_non_reusable_field_ids_need_their_mark():
    check(0, 32768, mark=True)
    for writer, mark in ((32768, False), (0, True)):
        with pytest.raises(CorruptDataError, match="max_allocated_field_id"):
            check(0, writer, mark=mark)


def test_that_flag_is_none_for_readers():
    with pytest.raises(UnsupportedFeatureError, match="32768"):
        check(32768, 32768, mark=True)


def test_writers_know_what_they_maintain():
    check_writable(writer=1 | 2 | 4 | 8 | 16 | 32 | 256 | 32768, source="m")
    for bit in (128, 1024, 2048, 16384):
        with pytest.raises(UnsupportedFeatureError, match=str(bit)):
            check_writable(writer=bit, source="m")

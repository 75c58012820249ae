"""More text than an array of strings holds is written in parts, or refused: Arrow would lose it silently."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_df
from lance_df.errors import InvalidInputError
from lance_df.expr import text_views
from lance_df.expr.text_views import as_texts, parts_of_texts, text_bytes
from lance_df.file import LanceFileReader, LanceFileWriter

_TEXTS = st.lists(st.sampled_from([None, "", "ä", "twelve bytes", "thirteen byte", "x" * 50, "y" * 200]))


@given(_TEXTS, st.integers(0, 5), st.sampled_from([1, 60, 250, 10_000]))
def test_parts_hold_as_much_as_they_may(texts: list[str | None], skipped: int, most: int) -> None:
    views = pa.array(texts, pa.string()).cast(pa.string_view()).slice(skipped)
    known = [len((each or "").encode()) for each in texts[skipped:]]
    assert text_bytes(views) == sum(known)
    batch = pa.record_batch({"a": views, "b": views, "n": pa.array(range(len(views)))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_views, "_PART_BYTES", most)
        parts = list(parts_of_texts(batch))
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([batch])
    for part in parts:
        assert part.num_rows <= 1 or 2 * text_bytes(part["a"]) <= most
    assert all(part.num_rows for part in parts) or len(parts) == 1


def test_what_lies_under_nulls_does_not_count() -> None:
    words = np.full((2, 4), 2**31 - 1, np.int32)
    words[1] = [1, 97, 0, 0]
    bitmap = pa.py_buffer(bytes([0b10]))
    views = pa.Array.from_buffers(pa.string_view(), 2, [bitmap, pa.py_buffer(words)])
    assert text_bytes(views) == 1
    assert as_texts(views, pa.string()).to_pylist() == [None, "a"]


def test_too_much_for_one_array_is_refused() -> None:
    """Arrow's cast makes offsets that begin anew at -2 GiB of this."""
    text = b"x" * (16 << 20)
    words = np.zeros((129, 4), np.int32)
    words[:, 0], words[:, 1] = len(text), int.from_bytes(b"xxxx", "little")
    views = pa.Array.from_buffers(pa.string_view(), 129, [None, pa.py_buffer(words), pa.py_buffer(text)])
    with pytest.raises(InvalidInputError, match="a batch has 2164260864 bytes of text"):
        as_texts(views, pa.string())
    parts = list(parts_of_texts(pa.record_batch({"t": views})))
    assert [part.num_rows for part in parts] == [64, 64, 1]


def test_tables_files_and_namespaces_are_written_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_views, "_PART_BYTES", 150)
    monkeypatch.setattr(text_views, "_MAX_BYTES", 200)
    texts = ["z" * (number % 90) for number in range(100)]
    rows = pa.table({"k": [number % 3 for number in range(100)], "n": range(100), "t": texts})
    given_rows = rows.set_column(2, "t", rows["t"].combine_chunks().cast(pa.string_view()))
    assert lance_df.write_dataset(given_rows, tmp_path / "table").to_table() == rows
    with LanceFileWriter(str(tmp_path / "file.lance"), given_rows.schema) as writer:
        writer.write_batch(given_rows)
    assert LanceFileReader(str(tmp_path / "file.lance")).read_all().to_table() == rows
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "namespace", rows.schema, ["k"])
    namespace.append(given_rows)
    assert namespace.to_table().sort_by("n") == rows
    namespace.append(given_rows.to_reader())
    assert namespace.count_rows() == 200
    # each replaces the two rows of its key
    namespace.upsert(given_rows.slice(0, 50), on=["n", "k"])
    assert namespace.count_rows() == 150


def test_texts_within_lists_are_counted_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_views, "_MAX_BYTES", 200)
    items = pa.array(["z" * 50] * 10).cast(pa.string_view())
    lists = pa.ListArray.from_arrays(pa.array([0, 10], pa.int32()), items)
    with pytest.raises(InvalidInputError, match="a batch has 500 bytes of text"):
        lance_df.write_dataset(pa.table({"lists": lists}), tmp_path / "table")
    assert not list(tmp_path.rglob("*.lance"))


def test_computed_texts_are_returned_in_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(text_views, "_PART_BYTES", 150)
    texts = ["z" * 40 + str(number) for number in range(50)]
    dataset = lance_df.write_dataset(pa.table({"t": texts}), tmp_path / "table")
    found = dataset.scanner(columns={"u": "arrow_cast(t, 'Utf8View')", "v": "concat(t, '!')"}).to_reader()
    batches = list(found)
    assert [text for batch in batches for text in batch["u"].to_pylist()] == texts
    assert [text for batch in batches for text in batch["v"].to_pylist()] == [f"{text}!" for text in texts]
    assert found.schema.types == [pa.string()] * 2
    assert len(batches) > 10

"""Columns of small fragments are decoded once, whatever the statements, and are what is stored."""

import pyarrow as pa
import pytest

import lance_df
from lance_df.table.reading import small_columns
from lance_df.table.reading.fragment_reader import FragmentReader

ROWS = pa.table({"id": [1, 2, None], "name": ["a", "ü", None], "score": [1.0, float("nan"), -0.0]})


@pytest.fixture
def reads(monkeypatch):
    """The numbers of rows of all reads of fragments."""
    found = []
    real = FragmentReader.read

    def read(self, fields, rows, **options):
        found.append(len(rows))
        return real(self, fields, rows, **options)

    def resident_column(self, field):
        found.append(self.num_rows)

    monkeypatch.setattr(FragmentReader, "read", read)
    monkeypatch.setattr(FragmentReader, "resident_column", resident_column)
    return found


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_a_small_fragment_is_decoded_once(tmp_path, reads, version):
    lance_df.write_dataset(ROWS, tmp_path / "t.lance", data_storage_version=version)
    ctx = lance_df.connect(tmp_path)
    first = ctx.sql("SELECT * FROM t WHERE id > 1").to_arrow_table()
    assert first.to_pylist()[0]["name"] == "ü"
    num_reads = len(reads)
    for value in (1, 2, 3):
        found = ctx.sql(f"SELECT id, name, score FROM t WHERE id = {value}").to_arrow_table()
        assert found["id"].to_pylist() == [value] * (value < 3)
    assert len(reads) == num_reads


def test_rows_that_are_deleted_and_added_later(tmp_path):
    dataset = lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    ctx = lance_df.connect(tmp_path)
    assert len(ctx.sql("SELECT * FROM t").to_arrow_table()) == 3
    dataset.delete("id = 1")
    dataset.insert(pa.table({"id": [7], "name": ["x"], "score": [0.5]}))
    assert ctx.sql("SELECT id FROM t").to_arrow_table()["id"].to_pylist() == [2, None, 7]


def test_what_is_large_or_long_is_not_kept(tmp_path, reads, monkeypatch):
    lance_df.write_dataset(pa.table({"x": range(10_000)}), tmp_path / "long.lance")
    lance_df.write_dataset(pa.table({"x": ["y" * 100_000]}), tmp_path / "wide.lance")
    ctx = lance_df.connect(tmp_path)
    for name in ("long", "wide"):
        for _ in range(2):
            before = len(reads)
            ctx.sql(f"SELECT x FROM {name}").to_arrow_table()
            assert len(reads) > before
    monkeypatch.setattr(small_columns, "_MAX_ROWS", 10_000)
    monkeypatch.setattr(small_columns, "_MAX_BYTES_AT_ONCE", 1_000_000)
    for name in ("long", "wide"):
        ctx.sql(f"SELECT x FROM {name}").to_arrow_table()
        before = len(reads)
        ctx.sql(f"SELECT x FROM {name}").to_arrow_table()
        assert len(reads) == before

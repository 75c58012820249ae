"""Files, sizes, changes and SQL of one table, as pylance has them."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import (
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with stable row ids and every kind of change."""
    uri = str(tmp_path_factory.mktemp("information") / "t")
    rows = pa.table({"a": range(50), "s": [None if n % 7 == 0 else f"text {n}" for n in range(50)]})
    lance.write_dataset(rows, uri, enable_stable_row_ids=True, max_rows_per_file=20)
    dataset = lance.dataset(uri)
    dataset.update({"a": "a + 1000"}, where="a between 10 and 12")
    dataset.delete("a < 3")
    lance.write_dataset(pa.table({"a": [7], "s": ["new"]}), uri, mode="append")
    lance_df.dataset(uri).create_scalar_index("a", "ZONEMAP")
    return uri


def _sorted(reader: pa.RecordBatchReader, *left_out: str) -> list[dict[str, Any]]:
    rows = reader.read_all()
    kept = rows.select([name for name in rows.column_names if name not in ("base_uri", *left_out)])
    return sorted(kept.to_pylist(), key=str)


def test_statistics(folder: str) -> None:
    ours, theirs = lance_df.dataset(folder).stats, lance.dataset(folder).stats
    assert ours.dataset_stats() == theirs.dataset_stats()
    assert ours.dataset_stats(10) == theirs.dataset_stats(10)
    found = [(each.id, each.bytes_on_disk) for each in ours.data_stats().fields]
    assert found == [(each.id, each.bytes_on_disk) for each in theirs.data_stats().fields]
    assert ours.index_stats("a_idx")["num_indexed_fragments"] > 0
    with pytest.raises(NotFoundError):
        ours.index_stats("none")


def test_files(folder: str) -> None:
    ours, theirs = lance_df.dataset(folder), lance.dataset(folder)
    assert _sorted(ours.all_files(), "last_modified") == _sorted(theirs.all_files(), "last_modified")
    assert ours.all_files().schema == theirs.all_files().schema
    assert _sorted(ours.tracked_files()) == _sorted(theirs.tracked_files())
    assert ours.tracked_files().schema == theirs.tracked_files().schema
    assert _sorted(ours.tracked_files(min_version=3)) == _sorted(theirs.tracked_files(min_version=3))
    seen: list[tuple[int, int | None]] = []
    ours.tracked_files(progress=lambda *counts: seen.append(counts)).read_all()
    assert seen == [(number, 5) for number in range(1, 6)]
    assert ours.version_refs() == theirs.version_refs()


@pytest.mark.parametrize("begin", [1, 2, 3, 4])
def test_changes(folder: str, begin: int) -> None:
    ours = lance_df.dataset(folder).delta(begin_version=begin, end_version=4)
    theirs = lance.dataset(folder).delta(begin_version=begin, end_version=4)
    assert _sorted(ours.get_inserted_rows()) == _sorted(theirs.get_inserted_rows())
    assert _sorted(ours.get_updated_rows()) == _sorted(theirs.get_updated_rows())
    assert _sorted(ours.get_deleted_row_ids()) == _sorted(theirs.get_deleted_row_ids())
    assert [each.uuid for each in ours.list_transactions()] == [
        each.uuid for each in theirs.list_transactions()
    ]


def test_wrong_deltas(folder: str, tmp_path: Path) -> None:
    dataset = lance_df.dataset(folder)
    assert len(dataset.delta(3).list_transactions()) == 2
    for wrong in ({}, {"begin_version": 1}, {"end_version": 1}):
        with pytest.raises(InvalidInputError, match="both begin_version and end_version"):
            dataset.delta(**wrong)
    with pytest.raises(VersionNotFoundError):
        dataset.delta(99)
    lance_df.write_dataset(pa.table({"a": [1]}), str(tmp_path / "t"))
    delta = lance_df.write_dataset(pa.table({"a": [1]}), str(tmp_path / "t"), mode="append").delta(1)
    with pytest.raises(UnsupportedFeatureError, match="enable_stable_row_ids"):
        delta.get_inserted_rows()


def test_sql(folder: str) -> None:
    ours, theirs = lance_df.dataset(folder), lance.dataset(folder)
    for text in (
        "SELECT sum(a) AS n, s IS NULL AS gone FROM dataset GROUP BY 2 ORDER BY 2",
        "SELECT a FROM dataset",
    ):
        found, expected = (
            pa.Table.from_batches(each.sql(text).build().to_batch_records()) for each in (ours, theirs)
        )
        assert found.to_pydict() == expected.to_pydict()
    builder = (
        ours.sql("SELECT * FROM t WHERE a > 40 ORDER BY a").table_name("t").with_row_id().with_row_addr()
    )
    batches = builder.batch_size(4).build().to_stream_reader().read_all().to_batches()
    assert max(batch.num_rows for batch in batches) == 4
    assert batches[0].schema.names == ["a", "s", "_rowid", "_rowaddr"]
    with pytest.raises(LanceError, match="nowhere"):
        ours.sql("SELECT nowhere FROM dataset").build().to_batch_records()
    older = lance_df.dataset(folder, version=1).sql("SELECT count(*) AS n FROM dataset").build()
    assert older.to_batch_records()[0].to_pydict() == {"n": [50]}
    with pytest.raises(UnsupportedFeatureError, match="read_blobs"):
        ours.sql("SELECT 1").blob_handling("all_binary")


def test_drop(tmp_path: Path) -> None:
    lance_df.write_dataset(pa.table({"a": [1]}), str(tmp_path / "t"))
    with pytest.raises(DatasetNotFoundError):
        lance_df.LanceDataset.drop(tmp_path)
    with pytest.raises(DatasetNotFoundError):
        lance_df.LanceDataset.drop(tmp_path / "t" / "data")
    assert (tmp_path / "t" / "data").is_dir()
    lance_df.LanceDataset.drop(tmp_path / "t")
    assert not (tmp_path / "t").exists()
    lance_df.LanceDataset.drop(tmp_path / "t", ignore_not_found=True)


def test_what_is_refused_says_what_to_do(folder: str) -> None:
    dataset = lance_df.dataset(folder)
    with pytest.raises(UnsupportedFeatureError, match="ZONEMAP"):
        dataset.create_index("a", "IVF_PQ", num_partitions=2)
    with pytest.raises(NotFoundError, match="none"):
        dataset.prewarm_index("none")
    dataset.prewarm_index("a_idx")
    dataset.migrate_manifest_paths_v2()
    assert dataset.new_file_session().contains("data") in (True, False)
    assert dataset.initial_storage_options is None
    assert dataset.latest_storage_options() is None

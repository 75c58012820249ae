"""Bounds of whole columns, from the pages of 0.1 files and from zone maps."""

import lance
import pyarrow as pa

from lance_df.table.open import open_table
from lance_df.table.statistics import bounds_of_files, bounds_of_zone_maps

ROWS = pa.table(
    {
        "n": pa.array([5, None, -3, 8], pa.int32()),
        "st": pa.array([{"s": "b"}, {"s": "a"}, {"s": None}, {"s": "c"}], pa.struct([("s", pa.string())])),
        "v": pa.array([[1.0], [2.0], [3.0], [4.0]], pa.list_(pa.float32(), 1)),
    }
)


def summary(found):
    return [
        (
            one.column,
            one.num_zones,
            one.minimum and one.minimum.as_py(),
            one.maximum and one.maximum.as_py(),
            one.null_count,
        )
        for one in found
    ]


def test_pages_of_all_files_count(tmp_path):
    uri = str(tmp_path / "old.lance")
    lance.write_dataset(ROWS, uri, data_storage_version="legacy", max_rows_per_group=2, max_rows_per_file=2)
    table = open_table(uri)
    readers = [table.open_data_file(fragment, fragment.files[0]) for fragment in table.fragments]
    assert summary(bounds_of_files(readers)) == [("n", 2, -3, 8, 1), ("st.s", 2, "a", "c", 1)]


def test_newer_files_have_no_page_statistics(tmp_path):
    uri = str(tmp_path / "new.lance")
    lance.write_dataset(ROWS, uri, data_storage_version="2.2")
    table = open_table(uri)
    fragment = table.fragments[0]
    assert bounds_of_files([table.open_data_file(fragment, fragment.files[0])]) == []
    assert bounds_of_zone_maps(table) == []


def test_zones_of_fragments_that_are_gone_do_not_count(tmp_path):
    uri = str(tmp_path / "indexed.lance")
    dataset = lance.write_dataset(ROWS, uri, max_rows_per_file=2)
    dataset.create_scalar_index("n", "ZONEMAP")
    assert summary(bounds_of_zone_maps(open_table(uri))) == [("n", 2, -3, 8, 1)]
    dataset.delete("n < 0 OR n > 5")
    assert summary(bounds_of_zone_maps(open_table(uri))) == [("n", 1, 5, 5, 1)]

"""Zone map indices: made, extended, joined, dropped and described, beside pylance."""

from __future__ import annotations

import decimal
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedFeatureError,
)
from lance_df.table.maintenance import scalar_index
from lance_df.table.writing import zone_map_writer

N = 300
COLUMNS = ("a", "f", "st.x", "s", "b", "dec", "ts", "half", "flag", "empty", "lasts")
FILTERS = [
    "a = 5", "a = 7", "a > 1100", "f > 1100", "f is null", "isnan(f)", "st.x = 700", "st.x is null",
    "s = '00100'", "s >= '01190'", "dec = 100", "ts < timestamp '1970-01-01 00:00:00.000010'", "half = 3.0",
    "flag", "not flag", "empty is null", "empty is not null",
]  # fmt: skip


def make_table(first: int) -> pa.Table:
    ids = range(first, first + N)
    return pa.table(
        {
            "a": list(ids),
            "f": [None if i % 7 == 0 else math.nan if i % 10 == 0 else float(i) for i in ids],
            "st": [{"x": i if i % 3 else None, "y": str(i)} for i in ids],
            "s": [f"{i:05}" for i in ids],
            "b": [f"{i:05}".encode() for i in ids],
            "dec": pa.array([decimal.Decimal(i) for i in ids], pa.decimal128(10, 2)),
            "ts": pa.array(ids, pa.timestamp("us")),
            "half": pa.array(range(N), pa.float16()),
            "flag": [True, False] * (N // 2),
            "empty": pa.nulls(N, pa.int32()),
            "lasts": pa.array(range(N), pa.duration("s")),
            "l": [[i] for i in ids],
        }
    )


def check_filters(uri: str, filters: Sequence[str] = FILTERS[::3]) -> None:
    theirs, ours = lance.dataset(uri), lance_df.dataset(uri)
    for text in filters:
        expected = theirs.scanner(filter=text, use_scalar_index=False, columns=["a"]).to_table().sort_by("a")
        assert theirs.scanner(filter=text, columns=["a"]).to_table().sort_by("a") == expected, text
        assert ours.to_table(columns=["a"], filter=text).sort_by("a") == expected, text


def coverage(uri: str) -> dict[str, list[set[int]]]:
    found: dict[str, list[set[int]]] = {}
    for index in lance.dataset(uri).describe_indices():
        found[index.name] = [set(segment.fragment_ids) for segment in index.segments]
    return found


@pytest.mark.parametrize("stable", [False, True])
def test_the_life_of_zone_maps(tmp_path: Path, stable: bool) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(3):
        lance.write_dataset(
            make_table(N * number), uri, mode="append" if number else "create", enable_stable_row_ids=stable
        )
    lance.dataset(uri).delete("a % 3 = 0 and a < 500")
    ours = lance_df.dataset(uri)
    for column in COLUMNS:
        ours.create_scalar_index(column, "ZONEMAP", rows_per_zone=50)
    names = {f"{column}_idx" for column in COLUMNS}
    assert coverage(uri) == {name: [{0, 1, 2}] for name in names}
    check_filters(uri, FILTERS)
    assert "@a_idx(ZoneMap)" in lance.dataset(uri).scanner(filter="a = 7").explain_plan()
    lance.write_dataset(make_table(3 * N), uri, mode="append")
    check_filters(uri)
    ours.checkout_latest()
    ours.optimize.optimize_indices()
    assert coverage(uri) == {name: [{0, 1, 2, 3}] for name in names}
    version = ours.version
    ours.optimize.optimize_indices()
    assert ours.version == version
    check_filters(uri)
    ours.update({"s": "'00100'", "f": "5.0"}, where="a > 900 and a < 950")
    ours.delete("a > 1150")
    check_filters(uri)
    ours.optimize.compact_files()
    # the updated rows are in a fragment of their own, that no index covers
    updated, joined = ours.fragment_ids()
    assert coverage(uri) == {name: [{joined}] for name in names}
    assert ours.get_fragment(updated).count_rows() == 49
    check_filters(uri)
    theirs = lance.dataset(uri)
    theirs.drop_index("st.x_idx")  # pylance 14 cannot optimize indices of nested columns
    lance.write_dataset(make_table(4 * N), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    check_filters(uri)
    ours.checkout_latest()
    ours.optimize.optimize_indices(index_names=["a_idx"], retrain=True)
    ours.drop_index("s_idx")
    assert "s_idx" not in coverage(uri)
    check_filters(uri, FILTERS[1::3])
    lance.dataset(uri).validate()


def test_zones_skip_deleted_rows(tmp_path: Path) -> None:
    """As pylance's do: zones have so many live rows."""
    uri, theirs_uri = str(tmp_path / "t.lance"), str(tmp_path / "theirs.lance")
    for where, module in ((uri, lance_df), (theirs_uri, lance)):
        dataset = lance.write_dataset(pa.table({"a": range(100)}), where, max_rows_per_file=60)
        dataset.delete("a % 2 = 0 or a < 10")
        module.dataset(where).create_scalar_index("a", "ZONEMAP")
    assert zones(uri, "a_idx") == zones(theirs_uri, "a_idx")
    lance_df.dataset(uri).create_scalar_index("a", "ZONEMAP", rows_per_zone=20)
    found = [
        (zone["min"], zone["max"], zone["zone_start"], zone["zone_length"]) for zone in zones(uri, "a_idx")
    ]
    assert found == [(11, 49, 11, 39), (51, 59, 51, 9), (61, 99, 1, 39)]


def zones(uri: str, name: str) -> list[dict[str, Any]]:
    (index,) = [found for found in lance_df.dataset(uri).list_indices() if found["name"] == name]
    reader = lance.file.LanceFileReader(f"{uri}/_indices/{index['uuid']}/zonemap.lance")
    return reader.read_all().to_table().to_pylist()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("small") / "t.lance")
    dataset = lance.write_dataset(make_table(0), uri)
    dataset.create_scalar_index("s", "BTREE")
    dataset.create_scalar_index("a", "ZONEMAP")
    return uri


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (("zzz", "ZONEMAP"), {}, ColumnNotFoundError),
        (("st.zzz", "ZONEMAP"), {}, ColumnNotFoundError),
        (("l", "ZONEMAP"), {}, UnsupportedFeatureError),
        (("st", "ZONEMAP"), {}, UnsupportedFeatureError),
        (("_rowid", "ZONEMAP"), {}, UnsupportedFeatureError),
        (("a", "NGRAM"), {}, UnsupportedFeatureError),
        (("a", "label_list"), {}, UnsupportedFeatureError),
        (("a", "BTREE"), {"rows_per_zone": 9}, UnsupportedFeatureError),
        (("a", "QQQ"), {}, InvalidInputError),
        (("a", None), {}, InvalidInputError),
        (("a", "ZONEMAP"), {"rows_per_zone": 0}, InvalidInputError),
        (("a", "ZONEMAP"), {"rows_per_zone": 1.5}, InvalidInputError),
        (("a", "ZONEMAP"), {"replace": False}, AlreadyExistsError),
        (("f", "ZONEMAP", "a_idx"), {}, AlreadyExistsError),
        (("a", "ZONEMAP"), {"fragment_ids": [0]}, UnsupportedFeatureError),
    ],
)
def test_wrong_arguments_are_refused(
    small: str, arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception]
) -> None:
    ours = lance_df.dataset(small)
    with pytest.raises(error):
        ours.create_scalar_index(*arguments, **options)
    assert ours.latest_version == 3


def test_names(small: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="the indices are: 'a_idx', 's_idx'"):
        lance_df.dataset(small).drop_index("zzz")
    with pytest.raises(NotFoundError):
        lance_df.dataset(small).index_statistics("zzz")
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(make_table(0), uri).create_scalar_index("s", "NGRAM")
    ours = lance_df.dataset(uri)
    with pytest.raises(UnsupportedFeatureError, match="'s_idx' has a type"):
        ours.optimize.optimize_indices(index_names=["s_idx"])
    ours.create_scalar_index("s", "ZONEMAP")
    ours.create_scalar_index("a", "zonemap", train=False)
    ours.create_scalar_index("a", "ZONEMAP", "mine")
    ours.create_scalar_index("a", "ZONEMAP", "mine")
    assert coverage(uri) == {"s_idx": [{0}], "s_idx_2": [{0}], "a_idx": [set()], "mine": [{0}]}
    ours.optimize.optimize_indices()
    assert coverage(uri)["a_idx"] == [{0}]
    check_filters(uri)


def test_descriptions_are_pylances(small: str) -> None:
    theirs = lance.write_dataset(make_table(N), small, mode="append")
    ours = lance_df.dataset(small)
    for mine, other in zip(ours.describe_indices(), theirs.describe_indices(), strict=True):
        for name in ("name", "index_type", "type_url", "fields", "field_names", "num_rows_indexed"):
            assert getattr(mine, name) == getattr(other, name), name
        assert mine.total_size_bytes == other.total_size_bytes
        for segment, expected in zip(mine.segments, other.segments, strict=True):
            assert segment.fragment_ids == set(expected.fragment_ids)
            for name in ("uuid", "dataset_version_at_last_update", "index_version", "created_at"):
                assert getattr(segment, name) == getattr(expected, name), name
    assert ours.index_statistics("a_idx") == theirs.stats.index_stats("a_idx")


# -- statistics of appended rows --


def test_segments_of_appends_stay_few(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(12):
        table = make_table(number * 100).slice(0, 100).select(["a", "f", "s"])
        lance_df.write_dataset(table, uri, mode="append", statistics=True)
    found = coverage(uri)
    assert found.keys() == {"a_zonemap", "f_zonemap", "s_zonemap"}
    for segments in found.values():
        assert len(segments) < 8
        assert sorted(each for covered in segments for each in covered) == list(range(12))
    for text in FILTERS[:6]:
        expected = lance.dataset(uri).scanner(filter=text, use_scalar_index=False).to_table()
        assert lance.dataset(uri).count_rows(text) == expected.num_rows
        assert lance_df.dataset(uri).count_rows(text) == expected.num_rows


@pytest.mark.parametrize("what", ["append", "rewrite", "delete"])
def test_statistics_of_races(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Others commit between the rows and their statistics; what these would be wrong about is left out."""
    uri = str(tmp_path / "t.lance")
    original, acted = zone_map_writer.commit, []

    def act() -> None:
        if what == "append":
            lance_df.write_dataset(pa.table({"a": range(100, 200)}), uri, mode="append", statistics=True)
        elif what == "rewrite":
            lance_df.write_dataset(pa.table({"a": [7]}), uri, mode="append")
            lance.dataset(uri).optimize.compact_files()
        else:
            lance.dataset(uri).delete("a < 50")

    def commit(*arguments: Any, **options: Any) -> int:
        if not acted:
            acted.append(True)
            act()
            if what == "rewrite":
                raise RetryableConflictError("a rewrite")
        return original(*arguments, **options)

    lance_df.write_dataset(pa.table({"a": range(100)}), uri)
    monkeypatch.setattr(zone_map_writer, "commit", commit)
    lance_df.write_dataset(pa.table({"a": range(200, 300)}), uri, mode="append", statistics=True)
    covered = {each for segments in coverage(uri).values() for part in segments for each in part}
    assert covered == {"append": {1, 2}, "rewrite": set(), "delete": {1}}[what]
    for text in ("a = 5", "a = 105", "a = 205", "a >= 0"):
        expected = lance.dataset(uri).scanner(filter=text, use_scalar_index=False).to_table().num_rows
        assert lance.dataset(uri).count_rows(text) == lance_df.dataset(uri).count_rows(text) == expected
    assert {path.name for path in (Path(uri) / "_indices").glob("*")} == {
        index["uuid"] for index in lance_df.dataset(uri).list_indices()
    }


def test_a_failed_commit_leaves_no_index_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t.lance")
    ours = lance_df.write_dataset(pa.table({"a": np.arange(9)}), uri)

    def fail(*_: Any, **__: Any) -> None:
        raise RetryableConflictError("no")

    monkeypatch.setattr(scalar_index, "commit_change", fail)
    with pytest.raises(RetryableConflictError):
        ours.create_scalar_index("a", "ZONEMAP")
    assert not (Path(uri) / "_indices").exists()

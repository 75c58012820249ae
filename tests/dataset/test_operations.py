"""Operations that others computed: described, exchanged and committed as pylance does it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import json
import pickle
import shutil
import struct
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from manifest_edits import edit_manifest
from pyroaring import BitMap

import lance_df
from lance_df._pb import table_pb2, transaction_pb2
from lance_df.errors import (
    ConflictError,
    CorruptDataError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.fragment import DataFile, FragmentMetadata, LanceFragment, write_fragments
from lance_df.schema import LanceSchema
from lance_df.table.open import open_table

NUMBER = "6f8a1f0e-9d0c-4b9e-8c8e-0123456789ab"
OURS, THEIRS = lance_df.LanceOperation, lance.LanceOperation


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "a": pa.array(numbers, pa.int64()),
            "s": pa.array([f"text {i}" for i in numbers]),
            "st": pa.array([{"x": i, "l": [i]} for i in numbers]),
        }
    )


def make(uri: Path, **options: Any) -> str:
    lance.write_dataset(rows(0, 30), str(uri), max_rows_per_file=10, **options)
    return str(uri)


def as_ours(fragment: Any) -> FragmentMetadata:
    return FragmentMetadata.from_json(json.dumps(fragment.to_json()))


def as_theirs(fragment: FragmentMetadata) -> lance.FragmentMetadata:
    return lance.FragmentMetadata.from_json(json.dumps(fragment.to_json()))


INSERTED_KEYS = "inserted_keys"


def plain(value: Any) -> Any:
    """Return what an operation of either library says, without its classes."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if type(value).__name__ == "LanceSchema":
        return [plain(field) for field in value.fields()]
    if type(value).__name__ == "LanceField":
        return (value.id(), value.name(), str(value.to_arrow().type), [plain(c) for c in value.children()])
    if type(value).__name__ == "DatasetBasePath":
        return (value.path, value.name, value.is_dataset_root)
    if dataclasses.is_dataclass(value):
        names = [each.name for each in dataclasses.fields(value) if each.name != INSERTED_KEYS]
        return (type(value).__name__, {name: plain(getattr(value, name)) for name in names})
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dt.datetime):
        return value.timestamp()
    return list(value) if type(value).__name__ in ("Bitmap", "set") else value


# -- what pylance recorded is described as pylance describes it -------------------------------------------


def test_recorded_transactions_read_as_in_pylance(tmp_path: Path) -> None:
    uri = make(tmp_path / "t", enable_stable_row_ids=True, commit_message="first")
    ds = lance.dataset(uri)
    ds.insert(rows(30, 35))
    ds.delete("a = 3")
    ds.update({"s": "'new'"}, where="a = 4")
    ds.add_columns({"n": "a + 1"})
    ds.alter_columns({"path": "n", "name": "m"})
    ds.update_config({"k": "v"})
    ds.update_field_metadata({"s": {"k": "v"}})
    ds.optimize.compact_files()  # before there is an index: pylance fails to describe rebuilt ones
    ds.create_scalar_index("a", "BTREE")
    lance.dataset(uri, version=3).restore()
    lance.write_dataset(rows(0, 3), uri, mode="overwrite")
    ds = lance.dataset(uri)
    ours = lance_df.dataset(uri)
    kinds = set()
    for version in range(1, ds.version + 1):
        mine, other = ours.read_transaction(version), ds.read_transaction(version)
        kinds.add(type(mine.operation).__name__)
        assert (mine.uuid, mine.read_version) == (other.uuid, other.read_version)
        assert mine.transaction_properties == other.transaction_properties
        if isinstance(mine.operation, OURS.Other):
            assert mine.operation.name == "ReserveFragments"
            continue
        assert plain(mine.operation) == plain(other.operation), version
    assert kinds == {
        *("Append", "Delete", "Update", "Merge", "Project", "CreateIndex", "UpdateConfig", "Rewrite"),
        *("Restore", "Overwrite", "Other"),
    }
    assert [each.uuid for each in ours.get_transactions(3)] == [each.uuid for each in ds.get_transactions(3)]


def test_indices_of_impossibly_many_fragments_are_not_described(tmp_path: Path) -> None:
    uri = make(tmp_path / "t")
    dataset = lance_df.dataset(uri)
    dataset.create_scalar_index("a", "BTREE")
    (file,) = (tmp_path / "t" / "_transactions").glob(f"{dataset.version - 1}-*.txn")
    message = transaction_pb2.Transaction.FromString(file.read_bytes())
    message.create_index.new_indices[0].fragment_bitmap = BitMap(range(2**32 - 1)).serialize()
    file.write_bytes(message.SerializeToString())
    edit_manifest(uri, lambda manifest: manifest.ClearField("transaction_section"))
    with pytest.raises(CorruptDataError, match="covers 4294967295 fragments, expected at most"):
        lance_df.dataset(uri).read_transaction(dataset.version)


def test_operations_have_pylance_s_fields() -> None:
    for name in vars(THEIRS):
        other = getattr(THEIRS, name)
        if not dataclasses.is_dataclass(other) or "Overlay" in name:
            continue  # overlays are refused by the release that writes them
        mine = getattr(OURS, name)
        extra = [INSERTED_KEYS] if name == "Update" else []  # pylance loses them
        theirs = [each.name for each in dataclasses.fields(other)]
        assert [each.name for each in dataclasses.fields(mine)] == theirs + extra, name
    for mine, other in ((lance_df.Transaction, lance.Transaction), (lance_df.Index, lance.Index)):
        assert [f.name for f in dataclasses.fields(mine)] == [f.name for f in dataclasses.fields(other)]


# -- the same operation, committed by both -----------------------------------------------------------------


@dataclasses.dataclass
class Side:
    """One library, and the same operation in its words."""

    library: Any
    op: Any
    uri: str

    @property
    def ds(self) -> Any:
        return self.library.dataset(self.uri)

    def fragments(self, data: pa.Table, **options: Any) -> list[Any]:
        return self.library.fragment.write_fragments(data, self.uri, **options)

    def commit(self, operation: Any, **options: Any) -> Any:
        options.setdefault("read_version", self.ds.version)
        return self.library.LanceDataset.commit(self.uri, operation, **options)


def append(side: Side) -> None:
    side.commit(side.op.Append(side.fragments(rows(30, 37)) + side.fragments(rows(40, 42))))


def append_some_columns(side: Side) -> None:
    side.commit(side.op.Append(side.fragments(rows(30, 37).select(["a", "st"]))))


def overwrite(side: Side) -> None:
    data = rows(50, 55).select(["s", "a"])
    fragments = side.fragments(data, mode="overwrite")
    side.commit(side.op.Overwrite(data.schema, fragments), read_version=None)


def delete(side: Side) -> None:
    first, second, third = side.ds.get_fragments()
    updated = [first.delete("a % 2 = 0"), second.delete_rows([1, 2, 9])]
    assert third.delete("a >= 20") is None
    side.commit(side.op.Delete(updated, [third.fragment_id], "some rows"))


def update_rows(side: Side) -> None:
    first, *_ = side.ds.get_fragments()
    updated = first.delete("a < 3")
    new = side.fragments(rows(0, 3))
    side.commit(side.op.Update([], [updated], new, [], [0], "rewrite_rows"))


def update_columns(side: Side) -> None:
    _, second, _ = side.ds.get_fragments()
    data = pa.table({"k": [11, 15, 99], "s": ["x", None, "z"]})
    fragment, fields, offsets = second.update_columns(data, "a", "k", with_offsets=True)
    operation = side.op.Update(
        updated_fragments=[fragment],
        fields_modified=fields,
        update_mode="rewrite_columns",
        updated_fragment_offsets={second.fragment_id: offsets},
    )
    side.commit(operation)


def merge(side: Side) -> None:
    merged = [fragment.merge_columns({"n": "a + a"}, batch_size=3) for fragment in side.ds.get_fragments()]
    side.commit(side.op.Merge([fragment for fragment, _ in merged], merged[-1][1], True))


def merge_by_key(side: Side) -> None:
    data = pa.table({"a": [3, 21], "n": ["three", "twenty-one"]})
    merged = [fragment.merge(data, "a") for fragment in side.ds.get_fragments()]
    side.commit(side.op.Merge([fragment for fragment, _ in merged], merged[-1][1]))


def project(side: Side) -> None:
    schema = side.library.schema.LanceSchema.from_pyarrow(rows(0, 1).rename_columns(["x", "y", "z"]).schema)
    side.commit(side.op.Project(schema, preserves_nullability=True))


def restore(side: Side) -> None:
    append(side)
    side.commit(side.op.Restore(1), read_version=None)


def replace_data(side: Side) -> None:
    (staged,) = side.fragments(pa.table({"s": [f"other {i}" for i in range(10)]}))
    side.commit(side.op.DataReplacement([side.op.DataReplacementGroup(1, staged.files[0])]))


def rewrite(side: Side) -> None:
    old = [fragment.metadata for fragment in side.ds.get_fragments()[:2]]
    data = side.ds.to_table().slice(0, 20)
    (new,) = side.fragments(data)
    new.id = 3
    side.commit(side.op.Rewrite([side.op.RewriteGroup(old, [new])], []))


def maps(side: Side) -> None:
    update = side.op.UpdateMap
    side.commit(
        side.op.UpdateConfig(
            update({"k": "v"}),
            update({"t": "u"}),
            update({"p": "q"}),
            {0: update({"f": "g"}), 3: update({"h": "i"}, replace=True)},
        )
    )


def index(side: Side) -> None:
    details = ("/lance.table.ZoneMapIndexDetails", b"")
    new = side.library.Index(NUMBER, "a_idx", [0], 1, {0, 2}, 0, index_details=details)
    side.commit(side.op.CreateIndex([new], []))
    side.commit(side.op.CreateIndex([], [new]))
    side.commit(side.op.CreateIndex([new], []))


COMMITS: list[Callable[[Side], None]] = [
    *(append, append_some_columns, overwrite, delete, update_rows, update_columns, merge, merge_by_key),
    *(project, restore, replace_data, rewrite, maps, index),
]


def described(uri: str) -> dict[str, Any]:
    table = open_table(uri)
    manifest = table.manifest
    return {
        "schema": [
            (f.id, f.name, f.logical_type, f.nullable, dict(f.metadata)) for f in manifest.schema.walk()
        ],
        "fragments": [
            (
                *(f.id, f.physical_rows, f.row_ids, f.created_at, f.last_updated_at),
                [(x.fields, x.column_indices, x.version) for x in f.files],
                f.deletion_file and (f.deletion_file.num_deleted_rows, f.deletion_file.read_version),
            )
            for f in manifest.fragments
        ],
        "indices": [(i.name, i.fields, list(i.covered_fragments() or ())) for i in table.indices],
        "maps": (dict(manifest.config), dict(manifest.table_metadata), dict(manifest.schema.metadata)),
        "flags": (manifest.reader_feature_flags, manifest.writer_feature_flags),
        "numbers": (manifest.version, manifest.max_fragment_id, manifest.next_row_id),
    }


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
@pytest.mark.parametrize("change", COMMITS, ids=lambda change: change.__name__)
def test_an_operation_makes_what_pylance_makes_of_it(
    tmp_path: Path, change: Callable[[Side], None], stable: bool
) -> None:
    theirs = Side(lance, THEIRS, make(tmp_path / "theirs", enable_stable_row_ids=stable))
    lance.dataset(theirs.uri).create_scalar_index("s", "BITMAP")
    ours = Side(lance_df, OURS, str(tmp_path / "ours"))
    shutil.copytree(theirs.uri, ours.uri)
    if change is rewrite and stable:
        for side in (ours, theirs):
            with pytest.raises((InvalidInputError, OSError), match="row ids"):
                change(side)
        return
    change(theirs)
    change(ours)
    made, expected = described(ours.uri), described(theirs.uri)
    if change is update_rows and stable:
        # pylance lets the index cover the new fragment, although it does not know the new row ids
        assert made.pop("indices") == [("s_idx", (1,), [0, 1, 2])]
        del expected["indices"]
    assert made == expected
    assert ours.ds.to_table() == lance.dataset(ours.uri).to_table() == theirs.ds.to_table()
    if change is index:
        return  # the files of which do not exist
    lance.dataset(ours.uri).validate()
    ours.ds.validate()


# -- distributed writes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.2"])
@pytest.mark.parametrize("committer", ["pylance", "lance_df"])
def test_a_write_half_by_pylance_and_half_by_us(tmp_path: Path, version: str, committer: str) -> None:
    uri = str(tmp_path / "t")
    mine = write_fragments(
        rows(0, 25), uri, mode="create", max_rows_per_file=10, data_storage_version=version
    )
    other = lance.fragment.write_fragments(
        rows(25, 40), uri, mode="create", max_rows_per_file=10, data_storage_version=version
    )
    schema = rows(0, 1).schema
    if committer == "pylance":
        operation = THEIRS.Overwrite(schema, [as_theirs(each) for each in mine] + other)
        lance.LanceDataset.commit(uri, operation, enable_stable_row_ids=True)
        more = [as_theirs(each) for each in write_fragments(rows(40, 45), uri)]
        more += lance.fragment.write_fragments(rows(45, 50), uri)
        lance.LanceDataset.commit(uri, THEIRS.Append(more), read_version=1)
    else:
        operation = OURS.Overwrite(schema, mine + [as_ours(each) for each in other])
        made = lance_df.LanceDataset.commit(uri, operation, enable_stable_row_ids=True)
        more = write_fragments(rows(40, 45), made)
        more += [as_ours(each) for each in lance.fragment.write_fragments(rows(45, 50), uri)]
        made = lance_df.LanceDataset.commit(made, OURS.Append(more), read_version=1, commit_message="more")
        assert made.version == 2
        assert lance.dataset(uri).read_transaction(2).transaction_properties == {
            "__lance_commit_message": "more"
        }
    for ds in (lance.dataset(uri), lance_df.dataset(uri)):
        assert ds.to_table(columns=["a", "s"]) == rows(0, 50).select(["a", "s"])
        assert ds.to_table(with_row_id=True)["_rowid"].to_pylist() == list(range(50))
        assert ds.data_storage_version == version
        assert len(ds.get_fragments()) == 7
        ds.validate()


def test_descriptions_travel_as_json_and_pickles(tmp_path: Path) -> None:
    uri = make(tmp_path / "t", enable_stable_row_ids=True)
    lance.dataset(uri).delete("a < 3")
    for mine, other in zip(
        lance_df.dataset(uri).get_fragments(), lance.dataset(uri).get_fragments(), strict=True
    ):
        assert mine.metadata.to_json() == other.metadata.to_json()
        assert as_ours(mine.metadata) == as_ours(other.metadata) == mine.metadata
        assert pickle.loads(pickle.dumps(mine.metadata)) == mine.metadata
    staged = write_fragments(rows(0, 2), uri, return_transaction=True)
    again = pickle.loads(pickle.dumps(staged))
    assert again == staged
    assert lance_df.LanceDataset.commit(uri, again).count_rows() == 29


def test_a_transaction_is_applied_once(tmp_path: Path) -> None:
    uri = make(tmp_path / "t")
    transaction = write_fragments(rows(30, 33), uri, return_transaction=True)
    first = lance_df.LanceDataset.commit(uri, transaction)
    second = lance_df.LanceDataset.commit(uri, transaction)
    assert (first.version, second.version, second.latest_version) == (2, 2, 2)
    assert lance.dataset(uri).count_rows() == 33


def test_appends_are_committed_together(tmp_path: Path) -> None:
    uri = make(tmp_path / "t")
    transactions = [write_fragments(rows(30 + i, 31 + i), uri, return_transaction=True) for i in range(3)]
    result = lance_df.LanceDataset.commit_batch(uri, transactions)
    assert result["dataset"].version == 2
    assert result["dataset"].to_table() == lance.dataset(uri).to_table() == rows(0, 33)
    assert len(result["merged"].operation.fragments) == 3
    with pytest.raises(UnsupportedFeatureError, match="only appends"):
        lance_df.LanceDataset.commit_batch(uri, [lance_df.Transaction(2, OURS.Restore(1))])
    with pytest.raises(InvalidInputError, match="transactions is empty"):
        lance_df.LanceDataset.commit_batch(uri, [])


def test_detached_versions_are_beside_the_history(tmp_path: Path) -> None:
    uri = make(tmp_path / "t")
    operation = OURS.Append(write_fragments(rows(30, 33), uri))
    made = lance_df.LanceDataset.commit(uri, operation, read_version=1, detached=True)
    assert made.version >> 63
    assert made.count_rows() == lance.dataset(uri, version=made.version).count_rows() == 33
    for ds in (lance.dataset(uri), lance_df.dataset(uri)):
        assert (ds.version, ds.count_rows(), len(ds.versions())) == (1, 30, 1)


def test_fragments_of_files_that_are_there(tmp_path: Path) -> None:
    uri = make(tmp_path / "t")
    made = LanceFragment.create(uri, rows(30, 35), fragment_id=7)
    assert (made.id, made.physical_rows) == (7, 5)
    ds = lance_df.dataset(uri)
    (file,) = made.files
    assert DataFile.create(ds, file.path) == file
    other = lance.fragment.DataFile.create(lance.dataset(uri), file.path)
    assert json.loads(json.dumps(file._to_dict())) == as_theirs(made).to_json()["files"][0]
    assert (other.fields, other.column_indices) == (file.fields, file.column_indices)
    again = LanceFragment.create_from_file(file.path, ds, 7)
    assert again == made
    made = lance_df.LanceDataset.commit(ds, OURS.Append([again]), read_version=1)
    assert lance.dataset(uri).to_table() == made.to_table() == rows(0, 35)
    lance_df.write_dataset(pa.table({"other": [1]}), str(tmp_path / "u"))
    (stray,) = (tmp_path / "u" / "data").iterdir()
    shutil.copy(stray, tmp_path / "t" / "data" / "stray.lance")
    with pytest.raises(InvalidInputError, match="no column 'other'"):
        DataFile.create(ds, "stray.lance")
    with pytest.raises(CorruptDataError, match="missing"):
        LanceFragment.create_from_file("nowhere.lance", ds, 1)


# -- mistakes -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make(tmp_path_factory.mktemp("mistakes") / "t")


@pytest.fixture(scope="module")
def staged(table: str) -> FragmentMetadata:
    (fragment,) = write_fragments(rows(30, 33), table)
    return fragment


def changed(fragment: FragmentMetadata, **values: Any) -> FragmentMetadata:
    """Return the fragment with something else in its only file."""
    return dataclasses.replace(fragment, files=[dataclasses.replace(fragment.files[0], **values)])


MISTAKES: dict[str, tuple[type[LanceError], Callable[[str, FragmentMetadata], Any]]] = {
    "no read version": (InvalidInputError, lambda t, f: commit(t, OURS.Append([f]), read_version=None)),
    "no operation": (InvalidInputError, lambda t, f: commit(t, "append")),
    "no path": (InvalidInputError, lambda t, f: commit(7, OURS.Append([f]))),
    "no table": (DatasetNotFoundError, lambda t, f: commit(t + "none", OURS.Append([f]))),
    "a version to come": (VersionNotFoundError, lambda t, f: commit(t, OURS.Append([f]), read_version=99)),
    "a restored version to come": (VersionNotFoundError, lambda t, f: commit(t, OURS.Restore(99))),
    "fragments that are none": (InvalidInputError, lambda t, f: OURS.Append(["x"])),
    "fragments that are no list": (InvalidInputError, lambda t, f: OURS.Append(f)),
    "a message for a transaction": (
        InvalidInputError,
        lambda t, f: commit(t, lance_df.Transaction(1, OURS.Append([f])), commit_message="x"),
    ),
    "a path out of the table": (
        InvalidInputError,
        lambda t, f: commit(t, OURS.Append([changed(f, path="../x.lance")])),
    ),
    "files of an old version": (
        InvalidInputError,
        lambda t, f: commit(t, OURS.Append([changed(f, file_major_version=0, file_minor_version=2)])),
    ),
    "files of an unknown version": (
        UnsupportedFeatureError,
        lambda t, f: commit(t, OURS.Append([changed(f, file_major_version=7)])),
    ),
    "no columns": (InvalidInputError, lambda t, f: commit(t, OURS.Append([changed(f, column_indices=[])]))),
    "unknown fields": (
        InvalidInputError,
        lambda t, f: commit(t, OURS.Append([changed(f, fields=[0, 1, 3, 77])])),
    ),
    "a field twice": (
        InvalidInputError,
        lambda t, f: commit(t, OURS.Append([dataclasses.replace(f, files=f.files * 2)])),
    ),
    "no files": (InvalidInputError, lambda t, f: commit(t, OURS.Append([dataclasses.replace(f, files=[])]))),
    "a merge without fragments": (
        InvalidInputError,
        lambda t, f: commit(t, OURS.Merge([], lance_df.dataset(t).lance_schema)),
    ),
    "a projection on nothing": (InvalidInputError, lambda t, f: commit(t, OURS.Project("a"))),
    "an unknown mode": (
        InvalidInputError,
        lambda t, f: commit(t, OURS.Update(new_fragments=[f], update_mode="x")),
    ),
    "a clone": (UnsupportedFeatureError, lambda t, f: commit(t, OURS.Clone(True, None, 1, t, None))),
    "bases of a table that is there": (
        InvalidInputError,
        lambda t, f: commit(t, OURS.Overwrite(rows(0, 1).schema, [f], ["x"])),
    ),
    "an index without a uuid": (
        InvalidInputError,
        lambda t, f: commit(t, OURS.CreateIndex([lance_df.Index("x", "i", [0], 1, [0], 0)], [])),
    ),
    "fields of an index that are no ids": (
        InvalidInputError,
        lambda t, f: commit(t, OURS.CreateIndex([lance_df.Index(NUMBER, "i", ["a"], 1, [0], 0)], [])),
    ),
    "ids that are none": (InvalidInputError, lambda t, f: commit(t, OURS.Delete([], ["x"], "a"))),
    "ids that are no list": (InvalidInputError, lambda t, f: commit(t, OURS.Delete([], 7, "a"))),
    "maps that are none": (InvalidInputError, lambda t, f: commit(t, OURS.UpdateConfig({"k": "v"}))),
    "a version that is none": (InvalidInputError, lambda t, f: commit(t, OURS.Restore("one"))),
    "replacements that are none": (InvalidInputError, lambda t, f: commit(t, OURS.DataReplacement([f]))),
    "negative retries": (InvalidInputError, lambda t, f: commit(t, OURS.Append([f]), max_retries=-1)),
    "rows of another schema": (InvalidInputError, lambda t, f: write_fragments(pa.table({"x": [1]}), t)),
    "an unknown way to write": (InvalidInputError, lambda t, f: write_fragments(rows(0, 1), t, mode="add")),
    "a table that is there": (LanceError, lambda t, f: write_fragments(rows(0, 1), t, mode="create")),
    "no rows for a fragment": (InvalidInputError, lambda t, f: LanceFragment.create(t, rows(0, 0))),
    "rows that are not there": (InvalidInputError, lambda t, f: first(t).delete_rows([10])),
    "no such key": (LanceError, lambda t, f: first(t).update_columns(rows(0, 2), "nope")),
    "columns that are not there": (
        InvalidInputError,
        lambda t, f: first(t).update_columns(pa.table({"a": [1], "n": [2]}), "a"),
    ),
    "parts of a struct": (
        InvalidInputError,
        lambda t, f: first(t).update_columns(pa.table({"a": [1], "st": [{"x": 2}]}), "a"),
    ),
}


def commit(uri: Any, operation: Any, **options: Any) -> Any:
    options.setdefault("read_version", 1)
    return lance_df.LanceDataset.commit(uri, operation, **options)


def first(uri: str) -> LanceFragment:
    return lance_df.dataset(uri).get_fragments()[0]


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_and_leave_nothing_behind(table: str, staged: FragmentMetadata, name: str) -> None:
    error, call = MISTAKES[name]
    before = {path for path in Path(table).parent.rglob("*") if path.is_file()}
    with pytest.raises(error):
        call(table, staged)
    assert {path for path in Path(table).parent.rglob("*") if path.is_file()} == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
WHERE = [
    *(("id",), ("physical_rows",), ("files",), ("deletion_file",), ("row_id_meta",), ("overlays",)),
    *(("created_at_version_meta",), ("files", 0), ("files", 0, "path"), ("files", 0, "fields")),
    *(("files", 0, "column_indices"), ("files", 0, "column_indices", 0), ("files", 0, "fields", 1)),
    *(("files", 0, "file_major_version"), ("files", 0, "file_size_bytes"), ("files", 0, "base_id")),
]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.sampled_from(WHERE), value=JSON)
def test_odd_descriptions_are_refused(
    table: str, staged: FragmentMetadata, where: tuple[str | int, ...], value: Any
) -> None:
    """Whatever stands somewhere in a description that came from elsewhere, the table stays readable."""
    described = json.loads(json.dumps(staged.to_json()))
    place: Any = described
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value
    operation = lance_df.LanceDataset.commit
    try:
        fragment = FragmentMetadata.from_json(json.dumps(described))
        made = operation(table, OURS.Append([fragment]), read_version=1, detached=True)
    except LanceError:
        return
    try:
        made.to_table()
    except LanceError:
        assert where[0] in ("physical_rows", "files")


def test_what_was_computed_from_an_old_version_conflicts(tmp_path: Path) -> None:
    uri = make(tmp_path / "t")
    updated = first(uri).delete("a = 1")
    lance.dataset(uri).delete("a = 1")
    with pytest.raises(ConflictError):
        commit(uri, OURS.Delete([updated], [], "a = 1"))
    assert lance_df.dataset(uri).count_rows() == 29


def test_schemas_have_pylance_s_methods(tmp_path: Path) -> None:
    uri = make(tmp_path / "t")
    mine, other = lance_df.dataset(uri).lance_schema, lance.dataset(uri).lance_schema
    assert plain(mine) == [
        (f.id(), f.name(), str(f.to_arrow().type), [plain_field(c) for c in f.children()])
        for f in other.fields()
    ]
    assert mine.to_pyarrow() == other.to_pyarrow()
    assert (mine.field("st").id(), mine.field("no")) == (2, None)
    assert mine.field_case_insensitive("ST").name() == "st"
    assert mine == LanceSchema.from_pyarrow(rows(0, 1).schema)
    assert mine.unenforced_primary_key() == []


def plain_field(field: Any) -> Any:
    return (
        *(field.id(), field.name(), str(field.to_arrow().type)),
        [plain_field(child) for child in field.children()],
    )


# -- what this release does not know survives ---------------------------------------------------------------

UNKNOWN = 900
MARK = struct.pack("<BBB", 0xA0, 0x38, 7)  # field 900, a varint: 7


def mark_everything(uri: str) -> None:
    """Put an unknown field into every message of the newest manifest."""

    def mark(manifest: table_pb2.Manifest) -> None:
        messages = [manifest, *manifest.fields, *manifest.fragments]
        for fragment in manifest.fragments:
            messages += fragment.files
            if fragment.HasField("deletion_file"):
                messages.append(fragment.deletion_file)
        for message in messages:
            message.MergeFromString(MARK)

    edit_manifest(uri, mark, edit_index=lambda index: index.MergeFromString(MARK))


def is_marked(message: Any) -> bool:
    return any(field.field_number == UNKNOWN for field in UnknownFieldSet(message))


def by_metadata(ds: Any) -> None:
    updated = ds.get_fragments()[0].delete("a = 5")
    commit(ds, OURS.Delete([updated], [], "a = 5"), read_version=ds.version)


def by_merge(ds: Any) -> None:
    merged = [fragment.merge_columns({f"m{ds.version}": "a"}) for fragment in ds.get_fragments()]
    operation = OURS.Merge([fragment for fragment, _ in merged], merged[-1][1])
    commit(ds, operation, read_version=ds.version)


SURVIVED: dict[str, Callable[[Any], Any]] = {
    "config": lambda ds: ds.update_config({"k": "v"}),
    "field metadata": lambda ds: ds.update_field_metadata({"a": {"k": "v"}, "st.x": {"k": "v"}}),
    "rename": lambda ds: ds.alter_columns({"path": "s", "name": "text"}, {"path": "st.x", "name": "X"}),
    "nulls": lambda ds: ds.add_columns(pa.field("n", pa.int8())),
    "values": lambda ds: ds.add_columns({"m": "a + 1"}),
    "cast": lambda ds: ds.alter_columns({"path": "m", "data_type": pa.int32()}),
    "drop": lambda ds: ds.drop_columns(["m"]),
    "described fragments": by_metadata,
    "described columns": by_merge,
    "append": lambda ds: commit(ds, OURS.Append(write_fragments(ds.head(2), ds)), read_version=ds.version),
}


def test_unknown_fields_survive(tmp_path: Path) -> None:
    uri = make(tmp_path / "t")
    ds = lance.dataset(uri)
    ds.delete("a in (1, 2)")
    ds.create_scalar_index("a", "BTREE")
    before = {file.path for fragment in open_table(uri).fragments for file in fragment.files}
    fields = {field.id for field in open_table(uri).schema.walk()}
    mark_everything(uri)
    lance_df.dataset(uri).validate()
    for name, change in SURVIVED.items():
        change(lance_df.dataset(uri))
        table = open_table(uri)
        manifest, fragments = table.manifest.origin, table.fragments.to_proto()
        assert is_marked(manifest), name
        assert {f.id for f in manifest.fields if is_marked(f)} == fields, name
        assert [is_marked(f) for f in fragments][:3] == [True] * 3, name
        kept = [file for f in fragments for file in f.files if file.path in before]
        assert kept, name
        assert all(map(is_marked, kept)), name
        assert all(is_marked(each.origin) for each in table.indices), name
    assert is_marked(fragments[0].deletion_file) is False  # it is a new file
    assert lance.dataset(uri).to_table() == lance_df.dataset(uri).to_table()


@pytest.mark.parametrize("of_pylance", [False, True], ids=["ours", "pylance"])
@pytest.mark.parametrize("restored", ["method", "operation"])
def test_a_version_is_restored_over_versions_that_are_gone(
    tmp_path: Path, of_pylance: bool, restored: str
) -> None:
    uri = make(tmp_path / "t")
    made = lance_df.dataset(uri)
    made.tags.create("good", 1)
    made.update_schema_metadata({"a": "b"})
    for start in (30, 40):
        made = lance_df.write_dataset(rows(start, start + 1), uri, mode="overwrite")
    made.cleanup_old_versions(dt.timedelta(0), error_if_tagged_old_versions=False)
    assert [each["version"] for each in made.versions()] == [1, 4]
    module = lance if of_pylance else lance_df
    old = module.dataset(uri, version="good")
    if restored == "method":
        old.restore()
    else:
        operation = module.LanceOperation.Restore(1)
        old = module.LanceDataset.commit(uri if of_pylance else old, operation)
    assert old.version == 5
    assert old.to_table() == lance_df.dataset(uri).to_table() == rows(0, 30)


def test_a_detached_version_is_restored(tmp_path: Path) -> None:
    uri = make(tmp_path / "t")
    operation = OURS.Append(write_fragments(rows(30, 33), uri))
    made = lance_df.LanceDataset.commit(uri, operation, read_version=1, detached=True)
    made.restore()
    assert (made.version, made.count_rows()) == (2, 33)


DETACHED_CHANGES: dict[str, Callable[[lance_df.LanceDataset], Any]] = {
    "append": lambda ds: lance_df.write_dataset(rows(0, 1), ds, mode="append"),
    "overwrite": lambda ds: lance_df.write_dataset(rows(0, 1), ds, mode="overwrite"),
    "insert": lambda ds: ds.insert(rows(0, 1)),
    "delete": lambda ds: ds.delete("a = 1"),
    "update": lambda ds: ds.update({"a": "5"}),
    "merge": lambda ds: ds.merge_insert("a").when_not_matched_insert_all().execute(rows(90, 91)),
    "add columns": lambda ds: ds.add_columns({"b": "a + 1"}),
    "compact": lambda ds: ds.optimize.compact_files(),
    "index": lambda ds: ds.create_scalar_index("a", "BTREE"),
    "config": lambda ds: ds.update_config({"x": "y"}),
    "commit": lambda ds: commit_on(ds, detached=False),
}


def commit_on(ds: lance_df.LanceDataset, *, detached: bool) -> lance_df.LanceDataset:
    operation = OURS.Append(write_fragments(rows(33, 34), ds.uri))
    return lance_df.LanceDataset.commit(ds, operation, read_version=ds.version, detached=detached)


@pytest.mark.parametrize("change", DETACHED_CHANGES)
def test_a_detached_version_is_not_followed(tmp_path: Path, change: str) -> None:
    uri = make(tmp_path / "t")
    operation = OURS.Append(write_fragments(rows(30, 33), uri))
    made = lance_df.LanceDataset.commit(uri, operation, read_version=1, detached=True)
    with pytest.raises(UnsupportedFeatureError, match=rf"version {made.version} is detached.*restore\(\)"):
        DETACHED_CHANGES[change](made)
    assert (lance_df.dataset(uri).version, made.count_rows()) == (1, 33)
    assert commit_on(made, detached=True).count_rows() == 34


def test_restores_of_what_is_gone(tmp_path: Path) -> None:
    uri = make(tmp_path / "t")
    old = lance_df.dataset(uri)
    made = lance_df.write_dataset(rows(0, 1), uri, mode="overwrite")
    made.cleanup_old_versions(dt.timedelta(0))
    with pytest.raises(VersionNotFoundError, match="version 1 does not exist"):
        old.restore()
    shutil.rmtree(uri)
    make(tmp_path / "t")
    with pytest.raises(ConflictError, match="created again"):
        old.restore()
    assert lance_df.dataset(uri).version == 1


def test_uuids_differ() -> None:
    one, other = (lance_df.Transaction(1, OURS.Restore(1)) for _ in range(2))
    assert uuid.UUID(one.uuid) != uuid.UUID(other.uuid)


CALLS = [
    (lance_df.LanceDataset, lance.LanceDataset, name)
    for name in (
        *("add_columns", "drop_columns", "merge", "update_config", "delete_config_keys", "update_metadata"),
        *("update_schema_metadata", "update_field_metadata", "replace_schema_metadata", "restore"),
        *("replace_field_metadata", "commit", "commit_batch", "validate", "get_transactions"),
    )
]
CALLS += [
    (LanceFragment, lance.LanceFragment, name)
    for name in ("create", "create_from_file", "delete", "delete_rows", "merge", "merge_columns", "validate")
]
CALLS += [
    (LanceFragment, lance.LanceFragment, "update_columns"),
    (DataFile, lance.fragment.DataFile, "create"),
    (lance_df.fragment, lance.fragment, "write_fragments"),
    (lance_df, lance, "batch_udf"),
]


@pytest.mark.parametrize(("mine", "other", "name"), CALLS)
def test_calls_have_pylance_s_arguments(mine: Any, other: Any, name: str) -> None:
    own = inspect.signature(getattr(mine, name)).parameters
    model = inspect.signature(getattr(other, name)).parameters
    positional = [each.name for each in own.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert positional == list(model)[: len(positional)]
    for each in own.values():
        if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            assert (each.name, each.default) == (each.name, model[each.name].default)

"""From one manifest to the next: flags, ids and what is carried on."""

from __future__ import annotations

import dataclasses
import uuid

import pyarrow as pa
import pytest

from lance_df.errors import RetryableConflictError, UnsupportedFeatureError
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.fragments import DeletionFile, DeletionFileType, Fragment
from lance_df.format.manifest import BasePath, IndexMetadata
from lance_df.format.operations import Append, Clone, CreateIndex, Delete, Overwrite
from lance_df.format.schema import schema_from_arrow
from lance_df.table.commit.apply import apply, create
from lance_df.table.commit.state import TableState

SCHEMA = schema_from_arrow(pa.schema({"a": pa.int64()}))
ROWS = Fragment(id=0, files=(), physical_rows=10)


def new_table(*fragments: Fragment, stable_row_ids: bool = False) -> TableState:
    return create(Overwrite(fragments, SCHEMA), data_format="2.2", stable_row_ids=stable_row_ids)


def changed(state: TableState, **changes: object) -> TableState:
    return TableState(dataclasses.replace(state.manifest, **changes), state.indices)  # type: ignore[arg-type]


def index(name: str) -> IndexMetadata:
    return IndexMetadata(uuid=uuid.uuid4(), fields=(0,), name=name, dataset_version=1)


def test_fragment_ids_go_on_from_the_highest_ever_used() -> None:
    assert new_table().manifest.max_fragment_id is None
    state = changed(new_table(ROWS, ROWS), max_fragment_id=7)
    after = apply(state, Append((ROWS, ROWS))).manifest
    assert after.fragments.ids.tolist() == [0, 1, 8, 9]
    assert (after.max_fragment_id, after.version) == (9, 2)


def test_row_ids_go_on_even_after_an_overwrite() -> None:
    state = new_table(ROWS, stable_row_ids=True)
    state = apply(state, Append((ROWS,)))
    state = apply(state, Overwrite((ROWS,), SCHEMA))
    assert state.manifest.next_row_id == 30
    assert (
        state.manifest.reader_feature_flags
        == state.manifest.writer_feature_flags
        == FeatureFlag.STABLE_ROW_IDS
    )
    assert all(fragment.row_ids and fragment.created_at for fragment in state.manifest.fragments)


def test_flags_follow_from_the_content() -> None:
    deleted = DeletionFile(file_type=DeletionFileType.ARROW, read_version=1, id=5, num_deleted_rows=1)
    state = changed(
        apply(new_table(ROWS), Delete((dataclasses.replace(ROWS, deletion_file=deleted),), ())),
        config={"k": "v"},
        base_paths=(BasePath(id=1, path="/elsewhere"),),
        reader_feature_flags=FeatureFlag.MIXED_FILE_VERSIONS | FeatureFlag.V2_FORMAT,
        writer_feature_flags=FeatureFlag.MIXED_FILE_VERSIONS | FeatureFlag.NO_TRANSACTION_FILE,
    )
    after = apply(state, Append((ROWS,))).manifest
    both = FeatureFlag.DELETION_FILES | FeatureFlag.BASE_PATHS | FeatureFlag.MIXED_FILE_VERSIONS
    assert after.reader_feature_flags == both
    assert after.writer_feature_flags == both | FeatureFlag.TABLE_CONFIG | FeatureFlag.NO_TRANSACTION_FILE
    assert not apply(state, Overwrite((), SCHEMA)).manifest.reader_feature_flags & FeatureFlag.DELETION_FILES


def test_index_entries_stay_come_and_go() -> None:
    a, segment, b = index("a"), index("a"), index("b")
    state = apply(new_table(ROWS), CreateIndex((a, b), ()))
    assert apply(state, Append((ROWS,))).indices == (a, b)
    state = apply(state, CreateIndex((segment,), (b,)))
    assert state.indices == (a, segment)
    assert apply(state, Overwrite((), SCHEMA)).indices == ()


def test_field_ids_that_must_not_be_used_again() -> None:
    state = changed(
        new_table(ROWS), max_allocated_field_id=4, writer_feature_flags=FeatureFlag.NON_REUSABLE_FIELD_IDS
    )
    with pytest.raises(RetryableConflictError, match="field id 0"):
        apply(state, Overwrite((), SCHEMA))
    later = schema_from_arrow(pa.schema({"a": pa.int64(), "b": pa.int64()}), first_id=5)
    after = apply(state, Overwrite((), later)).manifest
    assert after.max_allocated_field_id == 6
    assert after.writer_feature_flags == FeatureFlag.NON_REUSABLE_FIELD_IDS


def test_operations_that_only_make_tables() -> None:
    with pytest.raises(UnsupportedFeatureError, match="Clone"):
        apply(new_table(), Clone(True, None, 1, "/elsewhere", None))

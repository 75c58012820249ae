"""Validate a table: the manifest itself, every file that it names, and all live rows.

Problems that readers silently ignore are errors here. Spec: table format, chapter 17.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from lance_df.errors import CorruptDataError, NotFoundError
from lance_df.file.blobs.sidecars import sidecar_path
from lance_df.file.io import named_errors
from lance_df.file.open import open_file
from lance_df.format.blobs import DEDICATED, PACKED
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.fragments import TOMBSTONE
from lance_df.format.row_ids import row_id_range
from lance_df.scan.options import NO_STATISTICS
from lance_df.scan.request import Promise, ScanRequest
from lance_df.scan.run import run_tasks
from lance_df.table.blobs.columns import BlobLocation
from lance_df.table.indices.segments import segments_by_index
from lance_df.table.maintenance.moved_rows import without
from lance_df.table.reading.deletions import deleted_offsets
from lance_df.table.scan.plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from lance_df.format.fragments import DataFile, Fragment
    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.schema import Field
    from lance_df.storage import Location
    from lance_df.table.table import Table


def validate_table(table: Table) -> None:
    """Check everything, and read all live rows once, at the end.

    Raises
    ------
    CorruptDataError
        Something is missing, damaged or inconsistent; the message names the file.
    """
    validate_files(table)
    _check_zones(table)
    if table.uses_stable_row_ids:
        _check_row_ids(table)
    _read_rows(table, table.fragments)
    table.transaction()


def validate_files(table: Table) -> None:
    """Check the manifest, and what the files say of themselves that it names; rows are not read.

    Raises
    ------
    CorruptDataError
        As `validate_table` does.
    """
    _check_ids(table)
    for index in table.manifest_file.read_indices():
        _check_index(table, index)
    for fragment in table.fragments:
        _check_files(table, fragment)


def validate_fragments(table: Table, fragments: Sequence[Fragment]) -> None:
    """Check some fragments and the files that they name, and read their live rows once."""
    for fragment in fragments:
        _check_files(table, fragment)
    _read_rows(table, fragments)


def _read_rows(table: Table, fragments: Sequence[Fragment]) -> None:
    ids = tuple(fragment.id for fragment in fragments)
    request = ScanRequest(fragment_ids=ids, options=NO_STATISTICS, requires=Promise.COMPLETE)
    for _ in run_tasks(plan_scan(table, request).tasks):
        pass
    if any(field.is_blob for field in table.schema.walk()):
        for fragment in fragments:
            _check_blob_files(table, fragment)


def _check_ids(table: Table) -> None:
    manifest, path = table.manifest, table.manifest_file.path
    _check_once(table.fragments.ids.tolist(), f"{path}: fragment id")
    highest = int(table.fragments.ids.max()) if len(table.fragments) else -1
    known = -1 if manifest.max_fragment_id is None else manifest.max_fragment_id
    if highest > known:
        raise CorruptDataError(
            f"{path}: fragment {highest} exists, but the highest assigned fragment id is {known}"
        )
    fields = [field.id for field in manifest.schema.walk()]
    if min(fields, default=0) < 0:
        raise CorruptDataError(f"{path}: a field of the schema has the invalid id {min(fields)}")
    has_deletions = bool(table.fragments.has_deletions.any())
    if has_deletions and not manifest.reader_feature_flags & FeatureFlag.DELETION_FILES:
        raise CorruptDataError(
            f"{path}: fragments have deleted rows, but the feature flag for deletion files is not set"
        )
    mark = manifest.max_allocated_field_id
    if mark is not None and max(fields, default=-1) > mark:
        raise CorruptDataError(
            f"{path}: field {max(fields)} exists, but the highest assigned field id is {mark}"
        )


def _check_once(values: Sequence[object], what: str) -> None:
    twice = [value for value, count in Counter(values).items() if count > 1]
    if twice:
        raise CorruptDataError(f"{what} {twice[0]} appears twice")


def _check_files(table: Table, fragment: Fragment) -> None:
    name = table.name_of(fragment)
    ids = [field_id for file in fragment.files for field_id in file.fields if field_id != TOMBSTONE]
    trusted = table.manifest.writer_version is not None
    if trusted:  # releases that did not record their name wrote tables with one field in two files
        _check_once(ids, f"{name}: field")
    _check_fields(table, set(ids), name)
    for file in fragment.files:
        _check_file(table, fragment, file, name)
    table.deletion_vector(fragment)


def _check_fields(table: Table, held: set[int], name: str) -> None:
    """Check the fields that the data files of a fragment list."""
    mark = table.manifest.max_allocated_field_id
    strange = [field_id for field_id in held if field_id < 0 or (mark is not None and field_id > mark)]
    if strange:
        raise CorruptDataError(f"{name}: a data file has field {strange[0]}, which was never assigned")
    missing = [
        field.name
        for field in table.schema.fields
        if not field.nullable and held.isdisjoint(node.id for node in field.walk())
    ]
    if missing:
        raise CorruptDataError(f"{name}: no data file has column {missing[0]!r}, although it is not nullable")


def _check_file(table: Table, fragment: Fragment, file: DataFile, name: str) -> None:
    mixed = table.manifest.reader_feature_flags & FeatureFlag.MIXED_FILE_VERSIONS
    expected = table.manifest.data_format
    if expected not in (None, "0.1", file.version) and not mixed:
        raise CorruptDataError(f"{name}: {file.path!r} has file version {file.version}, expected {expected}")
    if file.version != "0.1":
        _check_columns(table, file, f"{name}: {file.path!r}")
    reader = table.open_data_file(fragment, file)
    num_rows = table.fragment_rows(fragment)
    if reader.num_rows != num_rows:
        raise CorruptDataError(
            f"{reader.path}: the file has {reader.num_rows} rows, but fragment {fragment.id} has "
            f"{num_rows} rows"
        )
    if file.version != "0.1":
        _check_order(table, file, f"{name}: {file.path!r}")


def _check_columns(table: Table, file: DataFile, name: str) -> None:
    """Check the mapping of fields to columns of a 2.x file, as readers do not notice mistakes in it."""
    with named_errors(name):
        columns = file.column_of()
    _check_once(list(columns.values()), f"{name}: column")
    untold = set(file.fields).difference(columns, [TOMBSTONE])
    leaves = [field.id for field in table.schema.walk() if field.is_leaf and field.id in untold]
    if leaves:
        raise CorruptDataError(f"{name}: the manifest lists field {leaves[0]} without a column")


def _check_order(table: Table, file: DataFile, name: str) -> None:
    """Compare the mapping with that in a 2.x file itself, unless its field ids differ from the table's."""
    reader = open_file(table.data_file_location(file).open())
    stored, columns = reader.column_of, file.column_of()
    if stored.keys() == columns.keys() and stored != columns:
        raise CorruptDataError(
            f"{name}: the file maps its fields to the columns {stored}, but the manifest maps them to "
            f"{columns}"
        )
    if TOMBSTONE in file.fields:
        return
    live = table.schema.by_id()
    for field in reader.schema.walk():
        if (
            field.id in stored.keys() - columns.keys()
            and field.id in live
            and live[field.id].name == field.name
        ):
            raise CorruptDataError(
                f"{name}: the file contains field {field.id}, but the manifest does not list it"
            )


def _check_blob_files(table: Table, fragment: Fragment) -> None:
    """Check that the blob files beside data files exist, and do not end before the blobs of live rows."""
    fields = [field for field in table.schema.fields if any(node.is_blob for node in field.walk())]
    columns = tuple(field.name for field in fields)
    ids = (fragment.id,)
    request = ScanRequest(columns=columns, fragment_ids=ids, options=NO_STATISTICS, requires=Promise.COMPLETE)
    ends: Counter[Location] = Counter()
    for batch in run_tasks(plan_scan(table, request).tasks):
        for field, values in zip(fields, batch.columns, strict=True):
            for blobs, described in _descriptions(field, values):
                file = fragment.file_of(blobs.id)
                if file is not None:
                    for blob_id, end in _ends_beside(described):
                        beside = dataclasses.replace(file, path=sidecar_path(file.path, blob_id))
                        location = table.data_file_location(beside)
                        ends[location] = max(ends[location], end)
    for location, end in ends.items():
        BlobLocation(location, 0, end).open()


def _descriptions(field: Field, values: pa.Array) -> Iterator[tuple[Field, pa.StructArray]]:
    """Yield the blob columns at or below a field, with the descriptions of their values."""
    if field.is_blob:
        yield field, values
    elif field.is_struct:
        for child, of_child in zip(field.children, values.flatten(), strict=True):
            yield from _descriptions(child, of_child)


def _ends_beside(described: pa.StructArray) -> Iterator[tuple[int, int]]:
    """Yield the ids of the blob files beside a data file, each with the end of its last blob."""
    if "kind" not in described.type.names:
        return
    kinds, positions, sizes, ids = (
        described.drop_null().field(name).to_numpy() for name in ("kind", "position", "size", "blob_id")
    )
    is_beside = np.isin(kinds, (PACKED, DEDICATED)) & (sizes > 0)
    for blob_id in np.unique(ids[is_beside]).tolist():
        chosen = is_beside & (ids == blob_id)
        yield blob_id, int((positions[chosen] + sizes[chosen]).max())


def _check_row_ids(table: Table) -> None:
    """Check that live rows have distinct row ids, all of which are below the next id."""
    live = [row_id_range(0, 0)]
    for fragment in table.fragments:
        name, num_rows = table.name_of(fragment), table.fragment_rows(fragment)
        ids = table.row_ids(fragment)
        if len(ids) != num_rows:
            raise CorruptDataError(f"{name}: {len(ids)} row ids for {num_rows} rows")
        deleted = table.deletion_vector(fragment)
        live.append(ids if deleted is None else without(ids, deleted_offsets(deleted)))
        _check_row_versions(table, fragment, name, num_rows)
    # runs are compared, as a few bytes may stand for billions of ids
    firsts = np.concatenate([ids.firsts for ids in live])
    lasts = firsts + np.concatenate([ids.ends - ids.begins - 1 for ids in live]).astype(np.uint64)
    order = np.argsort(firsts)
    firsts, lasts = firsts[order], lasts[order]
    same = firsts[1:][firsts[1:] <= lasts[:-1]]
    if len(same):
        raise CorruptDataError(f"{table.manifest_file.path}: two rows have the row id {same[0]}")
    if len(lasts) and int(lasts[-1]) >= table.manifest.next_row_id:
        raise CorruptDataError(
            f"{table.manifest_file.path}: row id {lasts[-1]} is in use, but the next row id to be assigned "
            f"is {table.manifest.next_row_id}"
        )


def _check_row_versions(table: Table, fragment: Fragment, name: str, num_rows: int) -> None:
    for versions in table.row_version_sequences(fragment):
        if len(versions) != num_rows:
            raise CorruptDataError(f"{name}: {len(versions)} row versions for {num_rows} rows")
        newest = int(versions.firsts.max(initial=0))
        if newest > table.version:
            raise CorruptDataError(f"{name}: a row has version {newest}, which does not exist yet")


def _check_zones(table: Table) -> None:
    """Check that zone maps have zones for every fragment that they cover, as searches lose rows otherwise."""
    ids = table.fragments.ids.astype(np.int64)
    for field in table.schema.walk():
        for name, segments in segments_by_index(table, field, ids).items():
            for segment in segments:
                unknown = segment.without_zones()
                if len(unknown):
                    raise CorruptDataError(
                        f"{table.manifest_file.path}: index {name!r} ({segment.entry.uuid}) lists fragment "
                        f"{unknown[0]} as covered, but has no zones for it"
                    )


def _check_index(table: Table, index: IndexMetadata) -> None:
    name = f"{table.manifest_file.path}: index {index.name!r} ({index.uuid})"
    unknown = sorted(set(index.fields) - table.schema.by_id().keys())
    if unknown:
        raise CorruptDataError(f"{name} is on field {unknown[0]}, which is not in the schema")
    if index.dataset_version > table.version:
        raise CorruptDataError(
            f"{name} was built from version {index.dataset_version}, which does not exist yet"
        )
    covered = index.covered_fragments()
    highest = -1 if table.manifest.max_fragment_id is None else table.manifest.max_fragment_id
    if covered and covered.max() > highest:
        raise CorruptDataError(f"{name} covers fragment {covered.max()}, which never existed")
    folder = table.index_location(index)
    for path, size in index.files:
        location = folder.child(path)
        try:
            actual = location.open().size
        except NotFoundError as err:
            table.check_not_gone(err)
            raise CorruptDataError(f"{location.uri}: this index file is missing") from err
        if size not in (0, actual):
            raise CorruptDataError(
                f"{location.uri}: the file has {actual} bytes, but the manifest says {size}"
            )

"""Check operations that other programs computed before they are committed, to find mistakes early.

A data file whose columns do not match the manifest is read as nulls or as other columns, and no reader
notices. Spec: table format, chapter 17.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lance_df.errors import InvalidInputError
from lance_df.format import operations as ops
from lance_df.format.fragments import TOMBSTONE
from lance_df.table.writing.schema_rules import check_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.format.fragments import DataFile, Fragment
    from lance_df.format.schema import Schema


def staged_version(operation: ops.Overwrite) -> str | None:
    """Return the version of the data files of an overwrite; None if it has no files.

    Raises
    ------
    InvalidInputError
        The files have different versions.
    """
    versions = {file.version for fragment in operation.fragments for file in fragment.files}
    if len(versions) > 1:
        raise InvalidInputError(
            f"the data files have the versions {', '.join(sorted(versions))}; all must have the same version"
        )
    return next(iter(versions), None)


def check_staged(operation: ops.Operation, *, schema: Schema | None, data_format: str) -> None:
    """Check the new fragments and files of an operation.

    Parameters
    ----------
    schema
        The schema of the table, used if the operation does not have one; names that it has may stay.
    data_format
        The file version of the table. A table may mix files of 2.x, but not these with files of 0.1.

    Raises
    ------
    InvalidInputError
        A file has a wrong path, version or list of columns; or a new fragment has no files, has deleted
        rows, or has columns that are not in the schema; or the names of a new schema are not usable.
    """
    match operation:
        case ops.Append(fragments):
            _check_new(fragments, schema, data_format)
        case ops.Overwrite(fragments, new_schema):
            check_names(new_schema, schema)
            _check_new(fragments, new_schema, data_format)
        case ops.Merge(fragments, new_schema):
            check_names(new_schema, schema)
            _check_files(fragments, data_format)
        case ops.Project(new_schema):
            check_names(new_schema, schema)
        case ops.Delete(updated):
            _check_files(updated, data_format)
        case ops.Update():
            _check_files(operation.updated_fragments, data_format)
            _check_new(operation.new_fragments, schema, data_format)
        case ops.Rewrite(groups):
            for group in groups:
                _check_new(group.new_fragments, schema, data_format)
        case ops.DataReplacement(replacements):
            for fragment_id, file in replacements:
                _check_file(file, f"fragment {fragment_id}", data_format)
        case _:
            pass


def _check_new(fragments: Iterable[Fragment], schema: Schema | None, version: str) -> None:
    fragments = tuple(fragments)
    _check_files(fragments, version)
    known = set() if schema is None else schema.by_id().keys()
    for number, fragment in enumerate(fragments):
        if not fragment.files or not fragment.physical_rows:
            raise InvalidInputError(f"new fragment {number} has no data files or no rows")
        if fragment.deletion_file is not None:
            raise InvalidInputError(
                f"new fragment {number} has a deletion file, which would not be found under the fragment's "
                "new id"
            )
        ids = {field_id for file in fragment.files for field_id in file.fields}
        unknown = sorted(field_id for field_id in ids - known if field_id >= 0)
        if schema is not None and unknown:
            raise InvalidInputError(f"new fragment {number} has fields that are not in the schema: {unknown}")


def _check_files(fragments: Iterable[Fragment], version: str) -> None:
    for fragment in fragments:
        where = f"fragment {fragment.id}"
        for file in fragment.files:
            _check_file(file, where, version)
        counts = Counter(i for file in fragment.files for i in file.fields if i != TOMBSTONE)
        twice = [field_id for field_id, count in counts.items() if count > 1]
        if twice:
            raise InvalidInputError(f"{where}: two data files contain field {twice[0]}")


def _check_file(file: DataFile, where: str, version: str) -> None:
    name = f"{where}: data file {file.path!r}"
    if not file.path or "/" in file.path or "\\" in file.path or file.path in (".", ".."):
        raise InvalidInputError(f"{name}: the path must be the name of a file in the folder of data files")
    if (file.version == "0.1") != (version == "0.1"):
        raise InvalidInputError(f"{name} has version {file.version}, but the table has version {version}")
    if file.version != "0.1" and len(file.fields) != len(file.column_indices):
        raise InvalidInputError(
            f"{name} lists {len(file.fields)} fields, but {len(file.column_indices)} column indices"
        )

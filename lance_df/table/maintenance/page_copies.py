"""Join fragments by copying their pages without decoding: the fast way to compact, where possible.

It is possible if no row is deleted and every file has every column, in the file version of the table. It is
worthwhile if pages are not tiny, as their number stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError, NotFoundError
from lance_df.file.v2.container import Container
from lance_df.file.v2.dictionary_room import has_small_index
from lance_df.file.v2.page_copy import PageCopier, copied_field_ids
from lance_df.format.fragments import Fragment
from lance_df.interrupts import check_stopped
from lance_df.storage.sink import ByteSink
from lance_df.table.metadata.base_paths import DATA_DIR
from lance_df.table.writing.fragment_writer import data_file, data_file_name
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from lance_df.format.fragments import DataFile
    from lance_df.format.schema import Field
    from lance_df.table.table import Table
    from lance_df.table.writing.fragment_writer import FileLimits

_VERSIONS = ("2.0", "2.1", "2.2")
# the minimum average page size of a column, so that a file of copied pages is efficient to read
_WORTHWHILE_BYTES = 16 * 1024


def can_be_copied(table: Table, fragments: Sequence[Fragment], *, version: str) -> bool:
    """Whether the pages of fragments can be copied into new files, according to the manifest."""
    if version not in _VERSIONS or any(_is_odd(field, version) for field in table.schema.walk()):
        return False
    ids = copied_field_ids(table.schema)
    return all(
        fragment.deletion_file is None
        and fragment.physical_rows
        and all(
            (file := fragment.file_of(field_id)) is not None and file.version == version for field_id in ids
        )
        for fragment in fragments
    )


def is_worthwhile(table: Table, fragments: Sequence[Fragment]) -> bool:
    """Whether pages are large enough to be copied rather than joined."""
    num_bytes = sum(file.size_bytes for fragment in fragments for file in fragment.files)
    num_pages = len(fragments) * max(1, len(copied_field_ids(table.schema)))
    return num_bytes >= num_pages * _WORTHWHILE_BYTES


@contextmanager
def fragments_copied(
    table: Table, fragments: Sequence[Fragment], *, version: str, limits: FileLimits
) -> Iterator[tuple[Fragment, ...]]:
    """Join fragments for which :func:`can_be_copied` is true; delete the files if the block fails.

    A new file begins at the first fragment after a limit was reached, so files may be somewhat larger.

    Yields
    ------
    The new fragments, all with id 0.

    Raises
    ------
    CorruptDataError
        A file is missing or damaged, or its row count is not that of its fragment.
    """
    folder = table.location / DATA_DIR
    written: list[Fragment] = []
    copier: PageCopier | None = None
    name = ""
    with uncommitted_files(table.location) as files:
        for number, fragment in enumerate(fragments, 1):
            check_stopped()
            if copier is None:
                name = data_file_name()
                sink = ByteSink(folder / name)
                files.add(name, sink.abort)
                copier = PageCopier(sink, table.schema, version=version)
            copier.add(_columns(table, fragment), fragment.physical_rows)
            is_full = copier.num_rows >= limits.max_rows or copier.position >= limits.max_bytes
            if is_full or number == len(fragments):
                file = data_file(name, copier.finish())
                written.append(Fragment(id=0, files=(file,), physical_rows=copier.num_rows))
                copier = None
        yield tuple(written)


def _columns(table: Table, fragment: Fragment) -> list[tuple[Container, int]]:
    opened: dict[str, Container] = {}
    columns = []
    for field_id in copied_field_ids(table.schema):
        file = fragment.file_of(field_id)
        number = None if file is None else file.column_of().get(field_id)
        if file is None or number is None:
            raise CorruptDataError(f"{table.name_of(fragment)}: no data file contains field {field_id}")
        if file.path not in opened:
            opened[file.path] = _open(table, fragment, file)
        columns.append((opened[file.path], number))
    return columns


def _open(table: Table, fragment: Fragment, file: DataFile) -> Container:
    location = table.data_file_location(file)
    try:
        container = Container(location.open_sized(file.size_bytes) if file.size_bytes else location.open())
    except NotFoundError as err:
        table.check_not_gone(err)
        raise CorruptDataError(f"{location.uri}: this data file is missing") from err
    if (container.num_rows, container.version) != (fragment.physical_rows, file.version):
        raise CorruptDataError(
            f"{container.path}: the file has version {container.version} and {container.num_rows} rows, "
            f"but its manifest says version {file.version} and {fragment.physical_rows} rows"
        )
    return container


def _is_odd(field: Field, version: str) -> bool:
    """Whether a field is not stored in pages of its own that can be combined with any other pages."""
    is_nested = field.is_struct or bool(field.children)
    return field.is_blob or has_small_index(field) or (is_nested and (version == "2.0" or not field.children))

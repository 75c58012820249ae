"""Open a data file of any version with the reader that the footer requires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.file.tail import with_tail
from lance_df.file.v2.container import Container
from lance_df.format.file_metadata import file_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_df.file.reader import FileReader
    from lance_df.format.schema import Field
    from lance_df.storage import ByteSource


def open_file(
    source: ByteSource,
    *,
    column_of: Mapping[int, int] | None = None,
    field_ids: Sequence[int] | None = None,
    dictionary_source: ByteSource | None = None,
    stored_fields: Mapping[int, Field] | None = None,
) -> FileReader:
    """Open one data file.

    Parameters
    ----------
    source
        The file.
    column_of
        2.x: field id to column number, from `DataFile.fields` and `column_indices`. By default from the
        file's own schema.
    field_ids
        0.1: `DataFile.fields`. By default from the manifest that is embedded in the file.
    dictionary_source
        0.1: the table's manifest file, which holds the dictionary values that ``Field.dictionary`` of the
        table's schema refers to. By default the file's own copy is read.
    stored_fields
        0.1: see `LegacyFileReader`.

    Raises
    ------
    CorruptDataError
        The file is not a Lance file, or is truncated or damaged.
    UnsupportedFeatureError
        This release cannot read the file version.
    """
    source = with_tail(source)
    version = file_version(source.read_tail(8).to_pybytes(), source=source.path)
    if version == "0.1":
        from lance_df.file.legacy.reader import LegacyFileReader

        return LegacyFileReader(
            source,
            field_ids=field_ids,
            dictionary_source=dictionary_source,
            stored_fields=stored_fields,
        )
    container = Container(source)
    if version == "2.0":
        from lance_df.file.v2.reader_2_0 import V2_0FileReader

        return V2_0FileReader(container, column_of)
    from lance_df.file.v2.reader_2_1 import V2_1FileReader

    return V2_1FileReader(container, column_of)

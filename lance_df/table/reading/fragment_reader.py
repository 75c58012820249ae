"""Read columns of one fragment across its data files.

The first data file that lists a leaf holds it. The leaves of one struct may be in several files. A leaf that
no file lists is null, and so is one that the manifest lacks. Field ids that the schema lacks, including
tombstones, are ignored. Spec: table format, 3.4, 11 and 18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lance_df.cache import Footprint
from lance_df.encodings.arrays import null_array
from lance_df.encodings.rows import as_positions, joined_starts
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.file.io import named_errors
from lance_df.file.read_options import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    import numpy.typing as npt

    from lance_df.encodings.plan import Rows
    from lance_df.file.legacy.statistics import LegacyStatistics
    from lance_df.file.read_options import ReadOptions
    from lance_df.file.reader import FileReader
    from lance_df.file.v2.resident_column import ResidentColumn
    from lance_df.format.fragments import DataFile, Fragment
    from lance_df.format.schema import Field
    from lance_df.table.table import Table


# a fragment up to this size is read in one window, as reading the starts of its pages takes longer
_SMALL_BYTES = 64 * 1024
_START = np.zeros(1, np.int64)
# memory of a reader, of what it knows of a column or of several together, and of each of these
_READER_BYTES = 2 * 1024
_COLUMNS_BYTES = 512
_FIELD_BYTES = 32
# the cost of values of variable size, in bits
_LONG = 1 << 16

_Parts: TypeAlias = "tuple[tuple[int, Field], ...]"
"""Numbers of data files, and the parts of a field that are read from them."""


class FragmentReader:
    """Reads the columns of one fragment by physical row. Files are opened when one of their columns is read.

    Threads may share it.

    Attributes
    ----------
    footprint
        Counts the memory that this takes besides its data files.
    """

    def __init__(self, table: Table, fragment: Fragment) -> None:
        self.fragment = fragment
        self.num_rows = table.fragment_rows(fragment)
        self._table = table
        with named_errors(table.name_of(fragment)):
            self._held = [_held_ids(file, table.missing_ids) for file in fragment.files]
        sizes = [file.size_bytes for file in fragment.files]
        # 0 if the files are larger, or their size is not recorded
        self._small_bytes = sum(sizes) if sizes and min(sizes) > 0 and sum(sizes) <= _SMALL_BYTES else 0
        self._is_stored: dict[Field, bool] = {}
        self._parts: dict[Field, _Parts] = {}
        self._files: dict[tuple[Field, ...], int | None] = {}
        self._readers: dict[int, FileReader] = {}
        self._resident: dict[Field, ResidentColumn | None] = {}
        self._page_starts: dict[tuple[Field, ...], npt.NDArray[np.int64]] = {}
        self._bytes_per_row: dict[tuple[Field, ...], float] = {}
        self.footprint = Footprint(_READER_BYTES)

    def read(
        self,
        fields: Sequence[Field],
        rows: Rows,
        *,
        keep_dictionaries: bool = False,
        views: Collection[Field] = (),
        options: ReadOptions = ALL,
    ) -> list[pa.Array]:
        """Return one array of Arrow storage type for each field, with a value for each of ``rows``.

        Parameters
        ----------
        fields
            Top-level fields of the table's schema, possibly with only some of their children.
        rows
            Physical rows of the fragment, deleted ones included.
        keep_dictionaries
            Whether columns that are stored as dictionaries may be returned as such; see `FileReader.read`.
        views
            Those of ``fields`` whose strings may be returned as string views.
        options
            The fast paths that may be used.

        Raises
        ------
        CorruptDataError
            A file contradicts the format, or the files of the fragment contradict each other.
        """
        number = self._file_of(tuple(fields))
        if number is None:
            merged = self._read_spread(fields, rows, options, keep_dictionaries=keep_dictionaries)
        else:
            reader = self.open(number)
            merged = reader.read(
                fields, rows, keep_dictionaries=keep_dictionaries, views=views, options=options
            )
        for field, array in zip(fields, merged, strict=True):
            if not field.nullable and array.null_count:
                self.check_nulls(field, array, rows)
        return merged

    def resident_column(self, field: Field) -> ResidentColumn | None:
        """Return a reader of one field, with the results of :meth:`read` at a lower price for each call.

        The caller has to call :meth:`check_nulls`. None if only :meth:`read` can read the field.
        """
        if field not in self._resident:
            number = self._file_of((field,))
            self._resident[field] = None if number is None else self.open(number).resident_column(field)
        return self._resident[field]

    def check_nulls(self, field: Field, array: pa.Array, rows: Rows) -> None:
        """Raise `CorruptDataError` if a field that is not nullable has a null in a live row."""
        # engines rely on this; nobody sees deleted rows, which may date from when the column was nullable
        if self._has_live_nulls(array, rows):
            files = (self.fragment.files[number] for number, _ in self.parts(field))
            where = ", ".join(self._table.data_file_location(file).uri for file in files) or self.name
            raise CorruptDataError(f"{where}: column {field.name!r} is not nullable, but contains nulls")

    def _file_of(self, fields: tuple[Field, ...]) -> int | None:
        """Return the number of the data file that holds all of the fields, or None."""
        if fields not in self._files:
            parts = [self.parts(field) for field in fields]
            numbers = {of_field[0][0] if of_field else None for of_field in parts}
            whole = all(
                of_field == ((of_field[0][0], field),)
                for field, of_field in zip(fields, parts, strict=True)
                if of_field
            )
            self._files[fields] = numbers.pop() if whole and len(numbers) == 1 else None
            self.footprint.add(_COLUMNS_BYTES + _FIELD_BYTES * len(fields))
        return self._files[fields]

    def _read_spread(
        self, fields: Sequence[Field], rows: Rows, options: ReadOptions, *, keep_dictionaries: bool
    ) -> list[pa.Array]:
        """Read fields that are in different files, or whose parts are."""
        wanted: dict[int, list[Field]] = {}
        for field in fields:
            for number, part in self.parts(field):
                wanted.setdefault(number, []).append(part)
        read: dict[tuple[int, Field], pa.Array] = {}
        for number, parts in wanted.items():
            reader = self.open(number)
            arrays = reader.read(parts, rows, keep_dictionaries=keep_dictionaries, options=options)
            read.update(zip(((number, part) for part in parts), arrays, strict=True))
        return [
            _merge(
                field,
                [(part, read[number, part]) for number, part in self.parts(field)],
                len(rows),
                self.name,
            )
            for field in fields
        ]

    def _has_live_nulls(self, array: pa.Array, rows: Rows) -> bool:
        deleted = self._table.deletion_vector(self.fragment)
        if deleted is None:
            return True
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        return bool(BitMap(as_positions(rows)[nulls].astype(np.uint32)) - deleted)

    @property
    def name(self) -> str:
        """The name of the fragment in messages."""
        return f"{self._table.uri}: fragment {self.fragment.id}"

    def parts(self, field: Field) -> _Parts:
        """Return the number of each data file with a part of the field, and that part.

        If files hold nothing of a requested struct but others of its fields, the cheapest of these is such a
        part. Only it says which structs are NULL; its values are dropped. The fields of a struct without data
        are NULL in either case, so whoever needs only these asks :meth:`is_stored` first.
        """
        parts = self._parts.get(field)
        if parts is None:
            parts = self._stored(field)
            whole = self._table.schema.by_name.get(field.name) if field.is_nested else None
            if whole is not None and whole.id == field.id and whole != field:
                parts += self._siblings(field, whole)
            self._parts[field] = parts
            self.footprint.add(_COLUMNS_BYTES)
        return parts

    def is_stored(self, field: Field) -> bool:
        """Return whether a data file holds a part of the field; if not, its leaves are NULL in all rows."""
        is_stored = self._is_stored.get(field)
        if is_stored is None:
            is_stored = self._is_stored[field] = bool(self._stored(field))
            self.footprint.add(_FIELD_BYTES)
        return is_stored

    def _stored(self, field: Field) -> _Parts:
        cut = ((number, _cut(field, self._owns(number))) for number in range(len(self._held)))
        return tuple((number, part) for number, part in cut if part is not None)

    def _siblings(self, field: Field, whole: Field) -> _Parts:
        """Return a part of ``whole`` for each struct or list of ``field`` of which nothing is stored."""
        if not field.is_nested:
            return ()
        below = {child.id: child for child in whole.children}
        siblings = tuple(
            (number, whole.with_children([part]))
            for child in field.children
            if child.id in below
            for number, part in self._siblings(child, below[child.id])
        )
        if siblings or self._stored(field):
            return siblings
        stored = [(number, unit) for number, part in self._stored(whole) for unit in _units(part)]
        return (min(stored, key=lambda each: _width(each[1])),) if stored else ()

    def open(self, number: int) -> FileReader:
        """Return the reader of a data file.

        Raises
        ------
        CorruptDataError
            The file holds fewer rows than the fragment.
        """
        reader = self._readers.get(number)
        if reader is None:
            reader = self._table.open_data_file(self.fragment, self.fragment.files[number])
            if reader.num_rows < self.num_rows:
                raise CorruptDataError(
                    f"{reader.path}: the file has {reader.num_rows} rows, but its fragment has "
                    f"{self.num_rows} rows"
                )
            self._readers[number] = reader
        return reader

    def is_counted(self) -> bool:
        """Return whether the open data files are still in the cache; mark them as used."""
        return all(reader.footprint.use() for reader in list(self._readers.values()))

    def page_starts(self, fields: Sequence[Field]) -> npt.NDArray[np.int64]:
        """Return the ascending first rows of the pages of the fields; only 0 if the files are small."""
        if self._small_bytes:
            return _START
        key = tuple(fields)
        if (known := self._page_starts.get(key)) is not None:
            return known
        starts = [np.zeros(1, np.int64)]
        for number in {number for field in fields for number, _ in self.parts(field)}:
            parts = [part for field in fields for owner, part in self.parts(field) if owner == number]
            starts.append(self.open(number).page_starts(parts))
        joined = joined_starts(starts)
        within = self._page_starts[key] = joined[joined < max(self.num_rows, 1)]
        self.footprint.add(_COLUMNS_BYTES + _FIELD_BYTES * len(key) + within.nbytes)
        return within

    def page_bytes(self, field: Field) -> list[tuple[int, int]]:
        """Return (first row, stored bytes) of every page of the field."""
        return [page for number, part in self.parts(field) for page in self.open(number).page_bytes(part)]

    def bytes_per_row(self, fields: Sequence[Field]) -> float:
        """Return the average stored bytes of a row of the fields; of all fields if the files are small."""
        if self._small_bytes:
            return self._small_bytes / max(self.num_rows, 1)
        key = tuple(fields)
        if (known := self._bytes_per_row.get(key)) is not None:
            return known
        stored = sum(size for field in fields for _, size in self.page_bytes(field))
        num_bytes = self._bytes_per_row[key] = stored / max(self.num_rows, 1)
        return num_bytes

    @property
    def has_legacy_files(self) -> bool:
        """Whether a data file may have page statistics."""
        return any(file.version == "0.1" for file in self.fragment.files)

    def statistics(self, field: Field) -> LegacyStatistics | None:
        """Return the page statistics of a field that has only one leaf, or None if there are none."""
        parts = self.parts(field)
        leaves = list(field.leaves())
        if not self.has_legacy_files or len(leaves) != 1 or [part for _, part in parts] != [field]:
            return None
        from lance_df.file.legacy.reader import LegacyFileReader

        reader = self.open(parts[0][0])
        if not isinstance(reader, LegacyFileReader):
            return None
        return reader.statistics(leaves[0])

    def _owns(self, number: int) -> Callable[[int], bool]:
        before = self._held[:number]
        return lambda field_id: field_id in self._held[number] and not any(field_id in ids for ids in before)


def _held_ids(file: DataFile, missing: AbstractSet[int]) -> AbstractSet[int]:
    listed = frozenset(file.fields) if file.version == "0.1" else file.column_of().keys()
    return listed - missing if missing else listed


def _cut(field: Field, owned: Callable[[int], bool]) -> Field | None:
    """Return the field with only those of its units whose ids are owned, or None.

    A unit is a field that a file stores as one: a field without children, a packed struct, a blob.
    """
    if field.is_leaf or field.is_packed or field.is_blob:
        return field if owned(field.id) else None
    children = tuple(_cut(child, owned) for child in field.children)
    present = tuple(child for child in children if child is not None)
    if not present:
        return None
    if field.logical_type == "map" and present != field.children:
        return None
    return field if present == field.children else field.with_children(present)


def _units(field: Field) -> Iterator[Field]:
    """Yield the field with only one of its units each."""
    if not field.is_nested:
        yield field
        return
    for child in field.children:
        for unit in _units(child):
            yield field.with_children([unit])


def _width(field: Field) -> int:
    """Return the bits of a value of a field with one unit, as an estimate of the cost of reading it."""
    while field.is_nested:
        (field,) = field.children
    try:
        return int(field.arrow_type().bit_width)
    except ValueError:
        return _LONG


def _merge(field: Field, parts: Sequence[tuple[Field, pa.Array]], num_rows: int, name: str) -> pa.Array:
    """Assemble an array from the parts that exist; everything else is null."""
    if not parts:
        return null_array(field.arrow_type(), num_rows)
    if len(parts) == 1 and parts[0][0] == field:
        return parts[0][1]
    if field.is_struct:
        return _merge_structs(field, parts, num_rows, name)
    if field.is_list:
        return _merge_lists(field, parts, name)
    raise UnsupportedFeatureError(
        f"{name}: column {field.name!r} of type {field.logical_type} cannot be read from several data files"
    )


def _merge_structs(
    field: Field, parts: Sequence[tuple[Field, pa.Array]], num_rows: int, name: str
) -> pa.Array:
    # A struct is valid if any file says so: where another file lacks it, its children are null.
    valid = parts[0][1].is_valid()
    for _, array in parts[1:]:
        valid = pc.or_(valid, array.is_valid())
    parts_of: dict[int, list[tuple[Field, pa.Array]]] = {}
    for part, array in parts:
        for child, values in zip(part.children, array.flatten(), strict=True):
            parts_of.setdefault(child.id, []).append((child, values))
    children = [_merge(child, parts_of.get(child.id, ()), num_rows, name) for child in field.children]
    data_type = field.arrow_type()
    mask = pc.invert(valid) if not pc.all(valid).as_py() else None
    return pa.StructArray.from_arrays(children, fields=list(data_type), mask=mask)


def _merge_lists(field: Field, parts: Sequence[tuple[Field, pa.Array]], name: str) -> pa.Array:
    lengths = pc.fill_null(parts[0][1].value_lengths(), 0)
    if any(not pc.fill_null(array.value_lengths(), 0).equals(lengths) for _, array in parts[1:]):
        raise CorruptDataError(
            f"{name}: the data files have different list lengths for column {field.name!r}"
        )
    (child,) = field.children
    items = [(part.children[0], array.flatten()) for part, array in parts]
    merged = _merge(child, items, len(items[0][1]), name)
    data_type = field.arrow_type()
    offsets = np.zeros(len(lengths) + 1, np.int64 if pa.types.is_large_list(data_type) else np.int32)
    np.cumsum(lengths.to_numpy(zero_copy_only=False), out=offsets[1:])
    kind = pa.LargeListArray if pa.types.is_large_list(data_type) else pa.ListArray
    null = parts[0][1].is_null()
    return kind.from_arrays(
        pa.array(offsets), merged, type=data_type, mask=null if parts[0][1].null_count else None
    )

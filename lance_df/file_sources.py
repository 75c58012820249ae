"""Read rows from Parquet and CSV files, given by a path, a URL, or a glob."""

from __future__ import annotations

import glob
import io
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as pads

from lance_df.errors import InvalidInputError, LanceError, NotFoundError, UnsupportedFeatureError
from lance_df.storage import open_location
from lance_df.storage.translate import translate_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SUFFIXES: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".csv.bz2": "csv",
    ".csv.zst": "csv",
}
_CSV_SAMPLE: Final = 8 << 20  # the number of bytes from which the types of columns are inferred
_DECIMAL_DIGITS: Final = 38
_WILDCARDS: Final = frozenset("*?[")


def open_files(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    schema: pa.Schema | None = None,
    *,
    column_types: pa.Schema | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of files, in the order of their names.

    The columns are those of all files together; a column that a file lacks is null. In CSV an empty field is
    null, and ``""`` is an empty string; types are inferred from the first 8 MiB of a file. Integers that no
    int64 holds are uint64, decimal, or text if they have more than 38 digits.

    Parameters
    ----------
    source
        A path or URL that ends in ``.parquet`` or ``.csv``, or in ``.csv.gz``, ``.csv.bz2`` or ``.csv.zst``;
        a glob of these, in which ``**`` matches folders at any depth; or a list of these.
    schema
        The columns to read, with their types; by default those of the files, or inferred from values.
    column_types
        Types of columns of CSV files. Names that do not occur, and types that pyarrow does not convert text
        to, are ignored.
    storage_options
        Options of the fsspec filesystem.

    Raises
    ------
    InvalidInputError
        A file is of another kind, the files are of both kinds, or their columns are incompatible.
    NotFoundError
        A file does not exist.
    """
    texts = [os.fspath(each) for each in ([source] if isinstance(source, str | os.PathLike) else source)]
    paths: list[str] = []
    filesystem = None
    for text in texts:
        if not (_format_of(text) or _WILDCARDS.intersection(text)):
            raise InvalidInputError(
                f"{text!r:.200}: expected files whose names end in .parquet or .csv, or a glob of such "
                "files; open a Lance table with lance_df.dataset"
            )
        former = filesystem
        filesystem, matching = _matching(text, storage_options)
        if paths and filesystem != former:
            raise InvalidInputError(f"{text}: the files must be in one store")
        paths += matching
    text = ", ".join(texts)
    formats = {_format_of(path) for path in paths}
    if None in formats or len(formats) != 1:
        raise InvalidInputError(
            f"{text}: the files must all be Parquet or all be CSV, by the endings of their names"
        )
    (name,) = formats
    with _errors_of(text, str(name)):
        files = _opened(paths, filesystem, str(name), schema, column_types)
        return pa.RecordBatchReader.from_batches(files.schema, _batches(files, text, str(name)))


def csv_files(
    paths: Sequence[str],
    filesystem: Any = None,
    *,
    delimiter: str = ",",
    schema: pa.Schema | None = None,
    column_types: pa.Schema | None = None,
) -> pads.Dataset:
    """Return CSV files with a header as a dataset of pyarrow, read as by `open_files`."""
    types = {field.name: field.type for field in schema or column_types or () if _can_be_read(field.type)}
    for field in schema or ():
        if field.name not in types:
            raise InvalidInputError(
                f"column {field.name!r}: text of CSV files is not converted to {field.type}; give another "
                "type in the schema, and cast the column of the table"
            )
    if any(path.lower().endswith(".zst") for path in paths):  # datasets decompress others alone
        rows = _csv_in_memory(paths, filesystem, delimiter, types)
        return pads.dataset(rows if schema is None else rows.select(schema.names).cast(schema))

    def opened(
        types: Mapping[str, pa.DataType], schema: pa.Schema | None = None, **options: Any
    ) -> pads.Dataset:
        form = pads.CsvFileFormat(**_csv_options(delimiter, types, **options))
        return pads.dataset(list(paths), format=form, filesystem=filesystem, schema=schema)

    files = opened(types)
    joined = _all_columns(files)
    if schema is None and (names := _inferred_doubles(joined, types)):
        texts = opened(types | dict.fromkeys(names, pa.string()))
        integers = _Integers(names)
        for file in texts.get_fragments():
            if not integers.names:
                break
            integers.add(_first_rows(file, integers.names))
        if integers.names:
            types |= integers.types()
            joined = _all_columns(opened(types))
    return opened(types, schema or joined, empty_lines=len(joined) == 1)


def _can_be_read(data_type: pa.DataType) -> bool:
    """Whether pyarrow can convert text of CSV to a type."""
    options = pa.csv.ConvertOptions(column_types={"column": data_type})
    try:
        pa.csv.read_csv(io.BytesIO(b"column\n"), convert_options=options)
    except pa.ArrowNotImplementedError:
        return False
    return True


def _inferred_doubles(schema: pa.Schema, types: Mapping[str, pa.DataType]) -> list[str]:
    return [field.name for field in schema if field.type == pa.float64() and field.name not in types]


def _first_rows(file: pads.Fragment, names: Sequence[str]) -> pa.Table:
    """Return some columns of the first block of a file, as text, as far as it has them."""
    present = [name for name in names if name in file.physical_schema.names]
    if not present:
        return pa.table({})
    first = next(iter(file.to_batches(columns=present, batch_readahead=0, fragment_readahead=0)), None)
    schema = pa.schema([(name, pa.string()) for name in present])
    return pa.Table.from_batches([] if first is None else [first], schema)


class _Integers:
    """Finds exact types of columns whose texts are all integers.

    Attributes
    ----------
    names
        The columns without other texts so far.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._num_digits = dict.fromkeys(names, 0)
        self._need_decimal: set[str] = set()

    def add(self, texts: pa.Table) -> None:
        """Add texts of the columns."""
        for name in texts.column_names:
            digits = pc.utf8_trim_whitespace(texts[name])
            if not pc.all(pc.match_substring_regex(digits, "^-?[0-9]+$"), min_count=0).as_py():
                self.names.remove(name)
                continue
            lengths = pc.utf8_length(pc.utf8_ltrim(digits, "-0"))
            self._num_digits[name] = max(self._num_digits[name], pc.max(lengths).as_py() or 0)
            try:
                digits.cast(pa.uint64())
            except pa.ArrowInvalid:
                self._need_decimal.add(name)

    def types(self) -> dict[str, pa.DataType]:
        """Return the type of each of the columns that have texts."""
        return {name: self._type(name) for name in self.names if self._num_digits[name]}

    def _type(self, name: str) -> pa.DataType:
        if self._num_digits[name] > _DECIMAL_DIGITS:
            return pa.string()
        return pa.decimal128(_DECIMAL_DIGITS, 0) if name in self._need_decimal else pa.uint64()


def parquet_files(
    paths: Sequence[str], filesystem: Any = None, *, schema: pa.Schema | None = None
) -> pads.Dataset:
    """Return Parquet files as a dataset of pyarrow, read as by `open_files`."""
    files = pads.dataset(list(paths), format="parquet", filesystem=filesystem, schema=schema)
    if schema is not None or len(paths) == 1:
        return files
    return pads.dataset(list(paths), format="parquet", filesystem=filesystem, schema=_all_columns(files))


def _all_columns(files: pads.Dataset) -> pa.Schema:
    """Return the columns of all files of a dataset together; a file need not have all of them."""
    schemas = [fragment.physical_schema for fragment in files.get_fragments()]
    return pa.unify_schemas(schemas, promote_options="permissive")


def _batches(files: pads.Dataset, text: str, name: str) -> Iterator[pa.RecordBatch]:
    path = None
    with _errors_of(text, name):
        try:
            for tagged in files.scanner().scan_batches():
                path = getattr(tagged.fragment, "path", None)
                yield tagged.record_batch
        except (pa.ArrowException, OSError):
            _raise_with_path(files, path, name)
            raise


def _raise_with_path(files: pads.Dataset, path: str | None, name: str) -> None:
    """Raise the error of a scan with the name of its file, which is ``path`` or one of the next."""
    for fragment in files.get_fragments():
        here = getattr(fragment, "path", None)
        if path in (None, here):
            path = None
            with _errors_of(here or "", name):
                for _ in fragment.to_batches(schema=files.schema):
                    pass


@contextmanager
def _errors_of(text: str, name: str) -> Iterator[None]:
    try:
        yield
    except LanceError:
        raise
    except FileNotFoundError as err:
        raise NotFoundError(f"{text}: no such file") from err
    except (pa.ArrowException, OSError) as err:
        advice = ""
        if "conversion error" in str(err):
            advice = (
                "; columns have the types of the table or of the schema that is given, and other types are "
                "inferred from the beginning of a file"
            )
        raise InvalidInputError(f"{text}: cannot be read as {name}: {err}{advice}") from err


def _format_of(path: str) -> str | None:
    lowered = path.lower()
    return next((name for suffix, name in _SUFFIXES.items() if lowered.endswith(suffix)), None)


def _matching(text: str, storage_options: Mapping[str, Any] | None) -> tuple[Any, list[str]]:
    """Return the filesystem (None for the local one) and the paths of the files."""
    is_glob = bool(_WILDCARDS.intersection(text))
    location = open_location(text, storage_options)
    if location.is_local:
        path = location.path
        is_glob = is_glob and not os.path.exists(path)
        paths = sorted(each for each in glob.glob(path, recursive=True) if os.path.isfile(each))
        paths = paths if is_glob else [path]
    else:
        if is_glob and text.lower().startswith(("http://", "https://")):
            raise UnsupportedFeatureError(
                f"{text}: files on a web server cannot be listed; name each of them"
            )
        with translate_errors(location.uri):
            paths = sorted(location.fs.glob(location.path)) if is_glob else [location.path]
    if not paths:
        raise NotFoundError(f"{text}: no file matches")
    return (None if location.is_local else location.fs), paths


def _opened(
    paths: Sequence[str],
    filesystem: Any,
    name: str,
    schema: pa.Schema | None,
    column_types: pa.Schema | None,
) -> pads.Dataset:
    if name == "csv":
        return csv_files(paths, filesystem, schema=schema, column_types=column_types)
    return parquet_files(paths, filesystem, schema=schema)


def _csv_options(
    delimiter: str, column_types: Mapping[str, pa.DataType], *, empty_lines: bool = False
) -> dict[str, Any]:
    """Return the options for reading CSV; with a single column, an empty line is a null."""
    return {
        "parse_options": pa.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=not empty_lines
        ),
        "read_options": pa.csv.ReadOptions(block_size=_CSV_SAMPLE),
        "convert_options": pa.csv.ConvertOptions(
            column_types=column_types,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }


def _csv_in_memory(
    paths: Sequence[str], filesystem: Any, delimiter: str, column_types: Mapping[str, pa.DataType]
) -> pa.Table:
    def read(types: Mapping[str, pa.DataType], *, empty_lines: bool = False) -> pa.Table:
        options = _csv_options(delimiter, types, empty_lines=empty_lines)
        tables = []
        for path in paths:
            with (
                open(path, "rb") if filesystem is None else filesystem.open(path) as file,
                pa.input_stream(file, compression=_compression_of(path)) as stream,
            ):
                tables.append(pa.csv.read_csv(stream, **options))
        return pa.concat_tables(tables, promote_options="permissive")

    rows = read(column_types)
    types = dict(column_types)
    if names := _inferred_doubles(rows.schema, types):
        integers = _Integers(names)
        integers.add(read(types | dict.fromkeys(names, pa.string())).select(names))
        types |= integers.types()
    is_single = rows.num_columns == 1
    return read(types, empty_lines=is_single) if is_single or len(types) > len(column_types) else rows


def _compression_of(path: str) -> str | None:
    lowered = path.lower()
    known = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
    return next((name for suffix, name in known.items() if lowered.endswith(suffix)), None)

"""Rows from files of Parquet and CSV: a path, a URL, or a glob."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as pads

from lance_df.errors import InvalidInputError, LanceError, NotFoundError, UnsupportedFeatureError
from lance_df.storage import open_location
from lance_df.storage.translate import translate_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SUFFIXES: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".csv.bz2": "csv",
}
_WILDCARDS: Final = frozenset("*?[")


def open_files(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    schema: pa.Schema | None = None,
    *,
    column_types: pa.Schema | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of files, in the order of their names.

    Columns are those of all files together, null where a file has none of a name.

    Parameters
    ----------
    source
        A path or URL that ends in ``.parquet``, ``.csv`` or ``.csv.gz``, or a glob of such, where ``**``
        stands for folders at any depth; or a list of such.
    schema
        The columns to read, in these types; by default what the files say, or their values look like.
    column_types
        Types of columns of CSV files, of those that are there.
    storage_options
        For the fsspec filesystem.

    Raises
    ------
    InvalidInputError
        It is no file of these kinds, files of both kinds, or files whose columns do not go together.
    NotFoundError
        There is no such file.
    """
    texts = [os.fspath(each) for each in ([source] if isinstance(source, str | os.PathLike) else source)]
    paths: list[str] = []
    filesystem = None
    for text in texts:
        if not (_format_of(text) or _WILDCARDS.intersection(text)):
            raise InvalidInputError(
                f"{text!r:.200}: rows are read from files whose names end in .parquet or .csv, or from a "
                "glob of these; open a Lance table with lance_df.dataset"
            )
        former = filesystem
        filesystem, matching = _matching(text, storage_options)
        if paths and filesystem != former:
            raise InvalidInputError(f"{text}: the files are of several stores")
        paths += matching
    text = ", ".join(texts)
    formats = {_format_of(path) for path in paths}
    if None in formats or len(formats) != 1:
        raise InvalidInputError(f"{text}: the files are not all of Parquet, or all of CSV, by their names")
    (name,) = formats
    try:
        return _read(paths, filesystem, str(name), schema, column_types).scanner().to_reader()
    except LanceError:
        raise
    except FileNotFoundError as err:
        raise NotFoundError(f"{text}: no such file") from err
    except (pa.ArrowException, OSError) as err:
        raise InvalidInputError(f"{text}: cannot be read as {name}: {err}") from err


def _format_of(path: str) -> str | None:
    lowered = path.lower()
    return next((name for suffix, name in _SUFFIXES.items() if lowered.endswith(suffix)), None)


def _matching(text: str, storage_options: Mapping[str, Any] | None) -> tuple[Any, list[str]]:
    """Return the filesystem, None for the local one, and the paths of the files."""
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
                f"{text}: files of a web server cannot be listed: name each of them"
            )
        with translate_errors(location.uri):
            paths = sorted(location.fs.glob(location.path)) if is_glob else [location.path]
    if not paths:
        raise NotFoundError(f"{text}: no file has such a name")
    return (None if location.is_local else location.fs), paths


def _read(
    paths: Sequence[str],
    filesystem: Any,
    name: str,
    schema: pa.Schema | None,
    column_types: pa.Schema | None,
) -> pads.Dataset:
    if name == "csv":
        types = schema or column_types
        convert = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        kind: Any = pads.CsvFileFormat(convert_options=convert)
    else:
        kind = pads.ParquetFileFormat()
    files = pads.dataset(list(paths), format=kind, filesystem=filesystem, schema=schema)
    if schema is not None or len(paths) == 1:
        return files
    schemas = [fragment.physical_schema for fragment in files.get_fragments()]
    joined = pa.unify_schemas(schemas, promote_options="permissive")
    return pads.dataset(list(paths), format=kind, filesystem=filesystem, schema=joined)

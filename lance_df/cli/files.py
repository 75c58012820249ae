"""Files as tables: a quoted path in FROM is read in place.

A path is relative to the working directory, and may be a pattern such as ``raw/*.parquet``. The path is also
the table name, so that columns, plans and errors use the name that the user wrote.
"""

from __future__ import annotations

import difflib
import glob
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_df.errors import DatasetNotFoundError, InvalidInputError, LanceError, UnsupportedFeatureError
from lance_df.records import dataclass
from lance_df.sql.file_sources import quoted_tables
from lance_df.sql.from_first import with_select
from lance_df.sql.splice import quote_identifier
from lance_df.sql.time_travel import with_versions
from lance_df.storage.location import absolute_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_df.engine.session import SessionContext

_KINDS: Final = {
    ".lance": "lance",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_MAX_LISTED: Final = 5
# rows of JSON to sample for columns and types: DataFusion truncates values in rows outside the sample
_ALL_ROWS: Final = 2**31
_COMPRESSIONS: Final = (".gz", ".bz2", ".zst")


@dataclass(frozen=True, slots=True)
class _FileKind:
    """The kind of a file, and its suffixes."""

    kind: str
    suffix: str
    compression: str

    @property
    def suffixes(self) -> str:
        return self.suffix + self.compression


class FileTables:
    """Registers the files that statements of a session read.

    Parameters
    ----------
    storage_options
        Storage options of Lance tables.
    """

    def __init__(self, ctx: SessionContext, storage_options: Mapping[str, Any] | None = None) -> None:
        self._ctx = ctx
        self._storage_options = storage_options
        self.names: set[str] = set()

    def register_for(self, statement: str) -> None:
        """Register each file that a statement reads in the session, with its current content.

        Raises
        ------
        DatasetNotFoundError
            There is no such file.
        InvalidInputError
            It cannot be read.
        """
        newest = with_versions(with_select(statement), lambda name, *_: name)
        for name in quoted_tables(newest):
            kind = _kind_of(name)
            if kind is not None and (name in self.names or not self._is_known(name)):
                self._register(name, kind)

    def _is_known(self, name: str) -> bool:
        try:
            return bool(self._ctx.table_exist(quote_identifier(name)))
        except Exception:  # noqa: BLE001 - the name exists even if the table cannot be opened
            return False

    def _register(self, name: str, kind: _FileKind) -> None:
        quoted = quote_identifier(name)
        paths = _paths(name, kind)
        if name in self.names:
            self._ctx.deregister_table(quoted)
        try:
            if kind.kind == "lance":
                self._register_lance(name, paths)
            elif not _finds_the_same(name, paths):
                self._ctx.register_dataset(quoted, self._dataset(paths, kind))
            elif kind.kind == "parquet":
                ending = os.path.splitext(paths[0])[1]
                self._ctx.register_parquet(quoted, _location(name, paths), file_extension=ending)
            elif kind.kind == "json" and not any(map(_is_json_array, paths)):
                self._ctx.register_json(quoted, _location(name, paths), **_json_options(kind))
            else:
                self._ctx.register_dataset(quoted, self._dataset(paths, kind))
        except LanceError:
            raise
        except Exception as err:  # DataFusion raises no narrower error
            reason = " ".join(str(err).split())
            raise InvalidInputError(f"{name}: cannot be read as {kind.kind}: {reason}") from err
        self.names.add(name)

    def _register_lance(self, name: str, paths: Sequence[str]) -> None:
        from lance_df.engine.tables.names import register

        if len(paths) == 1:
            register(self._ctx, quote_identifier(name), paths[0], storage_options=self._storage_options)
            return
        for path in paths:
            register(self._ctx, quote_identifier(path), path, storage_options=self._storage_options)
            self.names.add(path)
        union = " UNION ALL ".join(f"SELECT * FROM {quote_identifier(path)}" for path in paths)
        try:
            self._ctx.sql(f"CREATE OR REPLACE VIEW {quote_identifier(name)} AS {union}")
        except InvalidInputError as err:
            listed = ", ".join(paths[:_MAX_LISTED]) + (", …" if len(paths) > _MAX_LISTED else "")
            raise InvalidInputError(
                f"{name}: these tables cannot be read as one, because their columns differ: {listed}"
            ) from err

    def _dataset(self, paths: Sequence[str], kind: _FileKind) -> Any:
        import pyarrow.dataset as ds

        from lance_df.file_sources import csv_files, parquet_files

        if kind.kind == "csv":
            return csv_files(paths, delimiter="\t" if kind.suffix == ".tsv" else ",")
        if kind.kind == "parquet":
            return parquet_files(paths)
        if kind.kind == "json":
            tables = [
                _json_array(path) if _is_json_array(path) else self._json_lines(path, kind) for path in paths
            ]
            return ds.dataset(pa.concat_tables(tables, promote_options="permissive"))
        try:
            return ds.dataset(list(paths), format="ipc")
        except pa.ArrowInvalid:  # a stream has no footer
            return ds.dataset(pa.concat_tables([_arrow_stream(path) for path in paths]))

    def _json_lines(self, path: str, kind: _FileKind) -> pa.Table:
        # types are those of a single file
        return self._ctx.read_json(_location(path, [path]), **_json_options(kind)).to_arrow_table()


def _kind_of(name: str) -> _FileKind | None:
    """Return the kind of file of a path, or None if it is the name of a table."""
    lowered = name.lower().rstrip("/")
    compression = next((each for each in _COMPRESSIONS if lowered.endswith(each)), "")
    lowered = lowered.removesuffix(compression)
    for suffix, kind in _KINDS.items():
        if lowered.endswith(suffix) and (not compression or kind in ("csv", "json")):
            return _FileKind(kind, suffix, compression)
    return _FileKind("lance", "", "") if "/" in name and os.path.isdir(name) else None


def _paths(name: str, kind: _FileKind) -> list[str]:
    """Return the files of a path or a pattern.

    Raises
    ------
    DatasetNotFoundError
        There are none.
    """
    if "://" in name:
        if kind.kind != "lance":
            raise UnsupportedFeatureError(
                f"{name}: {kind.kind} files of remote stores are not supported in FROM, only Lance tables"
            )
        return [name]
    path = os.path.expanduser(name)
    if os.path.exists(path):
        return [path]
    if glob.has_magic(path):
        if matches := sorted(glob.glob(path, recursive=True)):
            return matches
        raise DatasetNotFoundError(f"{name}: no file matches the pattern")
    folder = os.path.dirname(path)
    try:
        others = os.listdir(folder or ".")
    except OSError:
        raise DatasetNotFoundError(f"{name}: folder {folder!r} does not exist") from None
    close = difflib.get_close_matches(os.path.basename(path), others, 1)
    suggestion = f"; did you mean {os.path.join(folder, close[0])!r}?" if close else ""
    raise DatasetNotFoundError(f"{name}: file does not exist{suggestion}")


def _location(name: str, paths: Sequence[str]) -> str:
    """Return the location for DataFusion: an absolute pattern, or a URL without wildcards."""
    if len(paths) > 1:
        return absolute_path(os.path.expanduser(name))
    url = Path(absolute_path(paths[0])).as_uri()
    return f"{url}/" if os.path.isdir(paths[0]) else url


def _finds_the_same(name: str, paths: Sequence[str]) -> bool:
    """Whether DataFusion finds the same files: not if folders have wildcards, or hidden files match."""
    if len(paths) == 1:
        return True
    pattern = _location(name, paths)
    matches = glob.glob(os.path.expanduser(name), recursive=True, include_hidden=True)
    return not glob.has_magic(os.path.dirname(pattern)) and len(matches) == len(paths)


def _json_options(kind: _FileKind) -> dict[str, Any]:
    return {
        "schema_infer_max_records": _ALL_ROWS,
        "file_extension": kind.suffixes,
        "file_compression_type": kind.compression[1:].upper() or None,
    }


def _is_json_array(path: str) -> bool:
    """Whether a file is one JSON array, rather than one object on each line."""
    with pa.input_stream(path) as stream:
        return bool(stream.read(4096).lstrip()[:1] == b"[")


def _json_array(path: str) -> pa.Table:
    with pa.input_stream(path) as stream:
        rows = json.loads(stream.read())
    if not all(isinstance(row, dict) for row in rows):
        raise InvalidInputError(f"{path}: every value of the JSON array must be an object")
    names = dict.fromkeys(name for row in rows for name in row)  # the first row may lack some columns
    return pa.table({name: _json_column([row.get(name) for row in rows]) for name in names})


def _json_column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (OverflowError, pa.ArrowInvalid):  # integers that no int64 holds
        if all(value is None or type(value) is int for value in values):
            fits = all(value is None or 0 <= value < 2**64 for value in values)
            return pa.array(values, pa.uint64() if fits else pa.decimal128(38, 0))
        raise


def _arrow_stream(path: str) -> pa.Table:
    with pa.input_stream(path) as stream:
        return pa.ipc.open_stream(stream).read_all()

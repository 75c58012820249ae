"""`scan_lance`: tables and namespaces as lazy Polars frames."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lance_df.errors import DatasetNotFoundError, InvalidInputError, MissingDependencyError
from lance_df.interrupts import imports_finished
from lance_df.polars_predicates import to_arrow_expression
from lance_df.records import as_integer
from lance_df.storage.schemes import with_allowed_schemes

if TYPE_CHECKING:
    import polars as pl

    from lance_df.api.dataset_calls import DatasetCalls
    from lance_df.table.metadata.refs import VersionRef


def scan_lance(
    source: Any,
    *,
    version: VersionRef | None = None,
    storage_options: Mapping[str, Any] | None = None,
    allowed_base_schemes: Iterable[str] | None = None,
) -> pl.LazyFrame:
    """Return a lazy Polars frame of one version of a table or a partitioned namespace.

    Columns, row limits and predicates are pushed into the scan, so partitions, fragments and pages that
    cannot match are not read. Polars also applies the predicates itself, so its semantics hold.

    Parameters
    ----------
    source
        A path or URL of a table or a namespace, or an open `LanceDataset`, `PartitionedNamespace` or
        `FilteredDataset`, whose current version is read.
    version
        The version to read. For a table it may also be a tag, or (branch, version).
    storage_options, allowed_base_schemes
        As for `lance_df.dataset`. An open object has its own.

    Raises
    ------
    NotFoundError
        There is no such table or version.
    InvalidInputError
        ``source`` is none of these.
    MissingDependencyError
        Polars is not installed, or its release has no IO plugins.
    """
    try:
        with imports_finished():
            import polars as pl
            from polars.io.plugins import register_io_source
    except ImportError as err:
        raise MissingDependencyError(
            "no release of Polars with IO plugins is installed; run pip install -U 'lance_df[polars]'"
        ) from err
    opened = _opened(source, version, with_allowed_schemes(storage_options, allowed_base_schemes))
    empty = pl.from_arrow(opened.scanner().projected_schema.empty_table())
    if not isinstance(empty, pl.DataFrame):
        raise InvalidInputError("a table without columns cannot be scanned as a frame")
    return register_io_source(
        functools.partial(_frames, opened), schema=empty.schema, **_if_known(register_io_source)
    )


def _if_known(function: Any) -> dict[str, Any]:
    """Return arguments that releases of Polars have only since lately."""
    import inspect

    known = inspect.signature(function).parameters
    return {
        name: value for name, value in {"is_pure": True, "explain_name": "LANCE"}.items() if name in known
    }


def _opened(
    source: Any, version: VersionRef | None, storage_options: Mapping[str, Any] | None
) -> DatasetCalls:
    with imports_finished():
        from lance_df.api.dataset_calls import DatasetCalls
        from lance_df.api.namespaces.namespace import PartitionedNamespace
        from lance_df.dataset import dataset

    if isinstance(source, DatasetCalls):
        return source._at_version(version)
    if not isinstance(source, str | os.PathLike):
        raise InvalidInputError(
            f"expected a path, a URL, a dataset or a namespace, got {type(source).__name__}"
        )
    try:
        return dataset(source, version, storage_options=storage_options)
    except DatasetNotFoundError:
        from lance_df.namespace.kind import holds_namespace
        from lance_df.storage import open_location

        if not holds_namespace(open_location(source, storage_options)):
            raise
    number = None if version is None else _number(version)
    return PartitionedNamespace.open(source, number, storage_options=storage_options)


def _number(version: VersionRef) -> int:
    number = as_integer(version)
    if number is None:
        raise InvalidInputError(f"the version of a namespace must be a number, got {version!r}")
    return number


def _frames(
    opened: DatasetCalls,
    with_columns: list[str] | None,
    predicate: pl.Expr | None,
    n_rows: int | None,
    batch_size: int | None,
) -> Iterator[pl.DataFrame]:
    """Yield what Polars asks for: of the first rows those for which a predicate is true."""
    import polars as pl

    schema = opened.scanner().projected_schema
    names = schema.names if with_columns is None else list(with_columns)
    needed = [] if predicate is None else predicate.meta.root_names()
    read = (
        list(dict.fromkeys([*names, *(name for name in needed if name in schema.names)])) or schema.names[:1]
    )
    condition = None
    if predicate is not None and n_rows is None:
        condition = to_arrow_expression(predicate, schema)
    scanner = opened.scanner(read, condition, limit=n_rows, batch_size=batch_size)
    for batch in scanner.to_batches():
        frame = pl.DataFrame(pl.from_arrow(batch))
        if predicate is not None:
            frame = frame.filter(predicate)
        if frame.height:
            yield frame.select(names)

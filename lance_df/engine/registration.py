"""Give Lance tables names in contexts of DataFusion."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow.dataset

from lance_df.compute.compat import PlainSessionContext
from lance_df.engine.failures import raised_by_catalog
from lance_df.engine.tables.created import name_parts
from lance_df.engine.tables.names import names_of
from lance_df.engine.tables.source import TableSource, as_source, is_ours
from lance_df.errors import InvalidInputError
from lance_df.storage.schemes import with_allowed_schemes

if TYPE_CHECKING:
    from lance_df.table.metadata.refs import VersionRef


Session = TypeVar("Session")

# what gives a name to data that is no table of ours; some releases of DataFusion lack some of them
_NAMING: Final = (
    *("register_arrow", "register_avro", "register_batch", "register_csv", "register_json"),
    *("register_listing_table", "register_parquet", "register_record_batches", "register_view"),
    *("create_dataframe", "from_arrow", "from_pandas", "from_polars", "from_pydict", "from_pylist"),
)


def with_errors_of_catalogs(session: type[Session]) -> type[Session]:
    """Let the methods of a session that DataFusion registers data by raise the `LanceError` of a catalog."""
    for name in _NAMING:
        if (method := getattr(PlainSessionContext, name, None)) is not None:
            setattr(session, name, _raising(method))
    return session


def _raising(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def raising(*arguments: Any, **options: Any) -> Any:
        with raised_by_catalog():
            return method(*arguments, **options)

    return raising


def register(
    ctx: PlainSessionContext,
    name: str,
    source: object,
    *,
    version: VersionRef | None = None,
    storage_options: Mapping[str, Any] | None = None,
    allowed_base_schemes: Iterable[str] | None = None,
) -> None:
    """Give a Lance table a name in any `datafusion.SessionContext`, replacing what had it.

    Every statement gets the newest version, unless ``version`` pins one. (A view that a plain context creates
    over the table stays at the version it was created with.)

    Parameters
    ----------
    name
        As SQL reads it: ``Trips`` is ``trips``, ``"Trips"`` is not; ``schema.trips`` works.
    source
        A path, a URL, or a dataset object. An object that is not at the newest version stays at its own, and
        so does one that shows some of a table: what its ``filter`` returned, or one whose default scan
        options choose rows or columns. Statements change no table through that.
    version
        A version number, a tag, or (branch, version).
    allowed_base_schemes
        Kinds of URLs that base paths of the table may have, see `lance_df.dataset`.

    Raises
    ------
    NotFoundError
        There is no such table or version.
    InvalidInputError
        ``name`` is no table name, or ``source`` is none of the above.
    """
    parts = name_parts(name)
    if isinstance(source, pyarrow.dataset.Dataset) and not is_ours(source):
        if version is not None:
            raise InvalidInputError(f"{source!r:.200}: has no other versions; register the whole dataset")
        schema, table = names_of(ctx).resolve(ctx, parts)
        if schema.table_exist(table):
            schema.deregister_table(table)
        schema.register_table(table, source)
        return
    options = with_allowed_schemes(storage_options, allowed_base_schemes)
    add_source(ctx, parts, as_source(source, version=version, storage_options=options))


def add_source(ctx: PlainSessionContext, name: tuple[str, ...], source: TableSource) -> None:
    """Give a table that can be opened the name that these parts are."""
    source.open()
    schema, table = names_of(ctx).resolve(ctx, name)
    schema.add(table, source)

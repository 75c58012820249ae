"""The options of a scanner, and the builder that collects them, with the names and meanings of pylance."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias

import pyarrow.compute as pc

from lance_df.arguments import checked_flag, checked_items, invalid
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.records import as_integer, dataclass

if TYPE_CHECKING:
    from lance_df.api.namespaces.reading import NamespaceReading
    from lance_df.dataset import LanceDataset
    from lance_df.fragment import LanceFragment
    from lance_df.scan.report import TableReport
    from lance_df.scanner import LanceScanner

Columns: TypeAlias = Sequence[str] | Mapping[str, str] | None
Filter: TypeAlias = str | pc.Expression | None

_ALL_COLUMNS = ("*",)
_MAX_ROWS = 2**63 - 1
_BATCH_SIZE_VARIABLE = "LANCE_DEFAULT_BATCH_SIZE"
_FLAGS = (
    *("with_row_id", "with_row_address", "include_deleted_rows", "strict_batch_size"),
    *("use_stats", "use_scalar_index"),
)
_BLOB_HANDLING = ("all_binary", "blobs_descriptions")
_REFUSED = (
    "nearest",
    "full_text_query",
    "index_segments",
    "row_addr_allowlist",
    "row_addr_blocklist",
    "substrait_aggregate",
)
_IGNORED = (
    "prefilter",
    "batch_size_bytes",
    "io_buffer_size",
    "batch_readahead",
    "fragment_readahead",
    "scan_in_order",
    "late_materialization",
    "fast_search",
    "disable_scoring_autoprojection",
    # pyarrow's
    "use_threads",
    "memory_pool",
    "cache_metadata",
    "fragment_scan_options",
)
_TUNING = (
    *("batch_size", "strict_batch_size", "per_fragment", "at_once"),
    *("use_stats", "use_scalar_index", "scan_stats_callback"),
)


@dataclass(frozen=True, slots=True)
class ColumnOrdering:
    """The sort order of one column, as in pylance."""

    column_name: str
    ascending: bool = True
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class ScanStatistics:
    """The amount of data that a scan has read, according to its plan, with the names of pylance.

    Pages that were already in memory are counted like pages that were read from storage.

    Attributes
    ----------
    iops, requests
        The number of pages.
    bytes_read
        The stored bytes of these pages.
    indices_loaded
        The number of indices that were queried.
    parts_loaded, index_comparisons
        Always zero: the parts of indices are not counted.
    all_counts
        Further counts by name: the fragments and rows that were read, and the total number of pages and
        bytes.
    """

    iops: int
    requests: int
    bytes_read: int
    indices_loaded: int
    parts_loaded: int
    index_comparisons: int
    all_counts: dict[str, int]

    @classmethod
    def of_report(cls, report: TableReport) -> Self:
        """Return the statistics of a report."""
        counts = {
            "fragments_scanned": report.fragments.kept,
            "rows_scanned": report.rows.kept,
            "pages_total": report.pages.total,
            "bytes_total": report.bytes.total,
        }
        pages, num_bytes = report.pages.kept, report.bytes.kept
        return cls(pages, pages, num_bytes, len(report.index_queries), 0, 0, counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannerOptions:
    """The options of one scanner, with the names and meanings of `LanceDataset.scanner`.

    ``condition`` comes from `LanceDataset.filter`. It must be true in addition to ``filter``, which may be
    SQL. ``per_fragment`` requires that each batch has rows of one fragment only, whatever the batch size.
    ``at_once`` requires that SQL is computed before the first batch is returned; scans within a DataFusion
    statement need this.
    """

    columns: Columns = None
    filter: Filter = None
    limit: int | None = None
    offset: int | None = None
    batch_size: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    fragment_ids: tuple[int, ...] | None = None
    use_stats: bool = True
    use_scalar_index: bool = True
    include_deleted_rows: bool = False
    strict_batch_size: bool = False
    order_by: tuple[ColumnOrdering, ...] = ()
    blobs_as_bytes: bool = False
    condition: pc.Expression | None = None
    per_fragment: bool = False
    at_once: bool = False
    scan_stats_callback: Callable[[ScanStatistics], object] | None = None

    def __post_init__(self) -> None:
        for name, least in (("limit", 0), ("offset", 0), ("batch_size", 1)):
            value = getattr(self, name)
            if value is None:
                continue
            number = as_integer(value)
            if number is None or not least <= number <= _MAX_ROWS:
                if not least and number is not None and number < 0:
                    raise InvalidInputError(f"{name.capitalize()} must be non-negative, got {value}")
                raise InvalidInputError(f"{name} must be an integer of at least {least}, got {value!r}")
            object.__setattr__(self, name, number)
        for name in _FLAGS:
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, checked_flag(value, name))
        if self.include_deleted_rows and not self.with_row_id:
            raise InvalidInputError(
                "include_deleted_rows is set but with_row_id is false; a null _rowid marks deleted rows"
            )
        if self.scan_stats_callback is not None and not callable(self.scan_stats_callback):
            raise InvalidInputError(
                "scan_stats_callback must be a function of ScanStatistics, got "
                f"{self.scan_stats_callback!r:.60}"
            )
        if isinstance(self.columns, str) or not isinstance(self.columns, Sequence | Mapping | None):
            raise invalid("columns", self.columns, "a list of names or a dict of names and expressions")
        items = self.columns.items() if isinstance(self.columns, Mapping) else zip(self.columns or ())
        for text in itertools.chain.from_iterable(items):
            if not isinstance(text, str):
                raise InvalidInputError(f"names and expressions of columns must be strings, got {text!r:.60}")
        if not isinstance(self.columns, Mapping) and tuple(self.columns or ()) == _ALL_COLUMNS:
            object.__setattr__(self, "columns", None)

    @property
    def is_sql(self) -> bool:
        """Return whether an expression of the scan is SQL text."""
        return isinstance(self.filter, str) or isinstance(self.columns, Mapping)


def default_batch_size() -> int | None:
    """Return the maximum number of rows of a batch that the environment sets, as for pylance.

    Raises
    ------
    InvalidInputError
        ``LANCE_DEFAULT_BATCH_SIZE`` is not a positive integer.
    """
    text = os.environ.get(_BATCH_SIZE_VARIABLE)
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InvalidInputError(
            f"{_BATCH_SIZE_VARIABLE} must be a number of rows of at least 1, got {text!r:.60}"
        )
    return int(text)


class ScannerBuilder:
    """A builder that collects the options of a scanner, as in pylance. Every method returns the builder.

    Options of vector and text search are refused. Options that only tune performance (readahead, buffer
    sizes) have no effect.
    """

    def __init__(self, ds: LanceDataset | NamespaceReading) -> None:
        self.ds = ds
        self._values: dict[str, Any] = {}

    @staticmethod
    def knows(name: str) -> bool:
        """Return whether there is an option of this name."""
        return name in (
            *_REFUSED,
            *_IGNORED,
            "fragments",
            "blob_handling",
            *ScannerOptions.__dataclass_fields__,
        )

    @staticmethod
    def selects(name: str) -> bool:
        """Return whether an option determines the rows, columns, values or order that a scan returns."""
        return name not in (*_IGNORED, *_TUNING)

    def apply_defaults(self, default_opts: Mapping[str, Any]) -> Self:
        """Set options by name."""
        if not isinstance(default_opts, Mapping):
            raise InvalidInputError(f"scanner options must be a dict, got {type(default_opts).__name__}")
        for key, value in default_opts.items():
            self.option(key, value)
        return self

    def option(self, name: str, value: Any) -> Self:
        """Set one option of `LanceDataset.scanner` by its name.

        Raises
        ------
        InvalidInputError
            There is no such option, or the value is invalid.
        UnsupportedFeatureError
            The option belongs to vector or text search.
        """
        if name in _REFUSED:
            if value is not None:
                raise UnsupportedFeatureError(
                    f"scanner option {name!r} is not supported; vector and text search are not available"
                )
        elif name == "fragments":
            self.with_fragments(value)
        elif name == "blob_handling":
            self.blob_handling(value)
        elif name == "order_by":
            self.order_by(value)
        elif name == "filter":
            self.filter(value)
        elif name in ScannerOptions.__dataclass_fields__:
            self._values[name] = value
        elif name not in _IGNORED:
            raise InvalidInputError(f"unknown scanner option {name!r}")
        return self

    def columns(self, cols: Columns = None) -> Self:
        """Choose columns by name, or compute them by a dict of names and SQL expressions; None for all."""
        return self.option("columns", cols)

    def filter(self, filter: Filter | dict[str, Any]) -> Self:
        """Return only rows for which an SQL or pyarrow expression is true."""
        if isinstance(filter, dict):
            if filter.get("search_filter") is not None:
                raise UnsupportedFeatureError("vector and text search are not supported")
            filter = filter.get("expr_filter")
        if not isinstance(filter, str | pc.Expression | None):
            raise InvalidInputError(
                f"filter must be SQL text or a pyarrow expression, got {type(filter).__name__}"
            )
        self._values["filter"] = filter
        return self

    def limit(self, n: int | None = None) -> Self:
        """Return at most ``n`` rows."""
        return self.option("limit", n)

    def offset(self, n: int | None = None) -> Self:
        """Skip the first ``n`` rows."""
        return self.option("offset", n)

    def batch_size(self, batch_size: int) -> Self:
        """Set the maximum number of rows of a batch."""
        return self.option("batch_size", batch_size)

    def strict_batch_size(self, strict_batch_size: bool = False) -> Self:
        """Give every batch except the last exactly the batch size."""
        return self.option("strict_batch_size", strict_batch_size)

    def with_row_id(self, with_row_id: bool = True) -> Self:
        """Append ``_rowid``."""
        return self.option("with_row_id", with_row_id)

    def with_row_address(self, with_row_address: bool = True) -> Self:
        """Append ``_rowaddr``."""
        return self.option("with_row_address", with_row_address)

    def include_deleted_rows(self, flag: bool) -> Self:
        """Also return deleted rows, with a null ``_rowid``."""
        return self.option("include_deleted_rows", flag)

    def use_stats(self, use_stats: bool = True) -> Self:
        """Use statistics to skip pages."""
        return self.option("use_stats", use_stats)

    def use_scalar_index(self, use_scalar_index: bool = True) -> Self:
        """Use indices to skip rows."""
        return self.option("use_scalar_index", use_scalar_index)

    def with_fragments(self, fragments: Iterable[LanceFragment] | None) -> Self:
        """Scan only these fragments, in this order."""
        if fragments is None:
            return self
        if not isinstance(fragments, Iterable):
            raise InvalidInputError(
                f"fragments must be LanceFragment objects, got {type(fragments).__name__}"
            )
        ids = []
        for fragment in fragments:
            fragment_id = getattr(fragment, "fragment_id", None)
            if not isinstance(fragment_id, int):
                raise InvalidInputError(
                    f"fragments must be LanceFragment objects, got {type(fragment).__name__}"
                )
            ids.append(fragment_id)
        self._values["fragment_ids"] = tuple(ids)
        return self

    def order_by(self, orderings: Sequence[ColumnOrdering | str] | None) -> Self:
        """Sort the rows. A column name alone means ascending order with nulls last."""
        expected = "a list of column names or ColumnOrdering objects"
        given = checked_items(() if orderings is None else orderings, "order_by", expected)
        self._values["order_by"] = tuple(
            ColumnOrdering(each) if isinstance(each, str) else each for each in given
        )
        return self

    def blob_handling(self, blob_handling: str | None) -> Self:
        """Return blobs as ``"blobs_descriptions"`` (the default) or as bytes, with ``"all_binary"``."""
        if blob_handling is not None and blob_handling not in _BLOB_HANDLING:
            raise InvalidInputError(f"blob_handling must be one of {_BLOB_HANDLING}, got {blob_handling!r}")
        self._values["blobs_as_bytes"] = blob_handling == "all_binary"
        return self

    def scan_in_order(self, scan_in_order: bool = True) -> Self:
        """Do nothing: scans always return rows in order."""
        return self.option("scan_in_order", scan_in_order)

    def prefilter(self, prefilter: bool) -> Self:
        """Do nothing: filters always apply to all rows."""
        return self.option("prefilter", prefilter)

    def fast_search(self, flag: bool = True) -> Self:
        """Do nothing: rows that an index does not cover are always read."""
        return self.option("fast_search", flag)

    def late_materialization(self, late_materialization: bool | list[str]) -> Self:
        """Do nothing: scans read columns late where that saves work."""
        return self.option("late_materialization", late_materialization)

    def batch_size_bytes(self, batch_size_bytes: int) -> Self:
        """Do nothing: the bytes that a scan reads at once are always bounded."""
        return self.option("batch_size_bytes", batch_size_bytes)

    def batch_readahead(self, nbatches: int | None = None) -> Self:
        """Do nothing."""
        return self.option("batch_readahead", nbatches)

    def fragment_readahead(self, nfragments: int | None = None) -> Self:
        """Do nothing."""
        return self.option("fragment_readahead", nfragments)

    def io_buffer_size(self, io_buffer_size: int) -> Self:
        """Do nothing."""
        return self.option("io_buffer_size", io_buffer_size)

    def disable_scoring_autoprojection(self, disable: bool = True) -> Self:
        """Do nothing: scans do not compute scores."""
        return self.option("disable_scoring_autoprojection", disable)

    def scan_stats_callback(self, callback: Callable[[ScanStatistics], object] | None) -> Self:
        """Call a function with the `ScanStatistics` of each scan that is read to its end."""
        return self.option("scan_stats_callback", callback)

    def nearest(self, column: str, q: object, *args: object, **options: object) -> NoReturn:
        """Raise an error: lance_df has no vector search."""
        del column, q, args, options
        raise UnsupportedFeatureError("nearest: vector search is not supported; use pylance for it")

    def full_text_search(self, query: object, columns: list[str] | None = None) -> NoReturn:
        """Raise an error: lance_df has no text search."""
        del query, columns
        raise UnsupportedFeatureError("full_text_search is not supported; filter with LIKE, or use pylance")

    def with_index_segments(self, index_segments: Iterable[object] | None) -> Self:
        """Accept only None: index segments cannot be chosen."""
        return self.option("index_segments", index_segments)

    def substrait_aggregate(self, aggregate: bytes) -> Self:
        """Raise an error: use SQL to aggregate, as with `LanceDataset.sql`."""
        return self.option("substrait_aggregate", aggregate)

    def to_scanner(self) -> LanceScanner:
        """Return the scanner.

        Raises
        ------
        InvalidInputError
            A value is invalid, or two values contradict each other.
        """
        from lance_df.scanner import LanceScanner

        return LanceScanner(self.ds, self.to_options())

    def to_options(self) -> ScannerOptions:
        """Return the collected options. Raises the errors of `to_scanner`."""
        values = dict(self._values)
        if values.get("batch_size") is None and (default := default_batch_size()) is not None:
            values["batch_size"] = default
        condition, given = values.get("condition"), values.get("filter")
        if condition is not None and not isinstance(given, str):
            values["filter"] = condition if given is None else condition & given
            values["condition"] = None
        return ScannerOptions(**values)

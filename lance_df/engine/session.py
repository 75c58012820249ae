"""Sessions: DataFusion contexts in which names refer to Lance tables and every predicate prunes."""

from __future__ import annotations

import logging
import os
import re
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lance_df.compute.compat import (
    DataFrame,
    Expr,
    PlainSessionContext,
    RuntimeEnvBuilder,
    SessionConfig,
    SQLOptions,
    as_view,
    col,
    default_schema_name,
    functions,
)
from lance_df.compute.json_functions import register_json_functions
from lance_df.compute.typed_functions import TypedFunctions, plain_name, register_hashes
from lance_df.engine.dataframe import LanceDataFrame, with_types_of_rows
from lance_df.engine.failures import planning_errors, raised_by_catalog, with_errors_of_catalogs
from lance_df.engine.optimizer.join_options import JoinOptions, PartitionedJoins
from lance_df.engine.query_planner import ONLY_QUERIES, QueryPlanner
from lance_df.engine.statement import Statement, planning
from lance_df.engine.tables.created import (
    created_external_table,
    created_view,
    explained_query,
    external_source,
    may_change,
    may_name_versions,
    named_versions,
    registered_name_parts,
    with_selects,
)
from lance_df.engine.tables.folders import SUFFIX, TableFolder, holds_table
from lance_df.engine.tables.names import add_source, names_of
from lance_df.engine.tables.scan_function import register_scan_function
from lance_df.engine.tables.source import TableSource, as_source, is_ours
from lance_df.errors import AlreadyExistsError, InvalidInputError, LanceError, NotFoundError
from lance_df.interrupts import imports_finished, undisturbed
from lance_df.scan.options import ALL, ScanOptions, checked_options
from lance_df.sql.nesting import bounded
from lance_df.sql.splice import quote_identifier
from lance_df.storage import open_location
from lance_df.storage.schemes import with_allowed_schemes
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.engine.report import ScanReport
    from lance_df.sql.statements import CreateExternalTable, CreateView

SomeContext = TypeVar("SomeContext", bound=PlainSessionContext)

_log = logging.getLogger("lance_df")
_SHOWS_FUNCTIONS = re.compile(r"\s*show\s+functions\b", re.IGNORECASE)
_LISTS_FUNCTIONS = re.compile(r"\b(routines|parameters)\b", re.IGNORECASE)


@with_errors_of_catalogs
class LanceSession:
    """The methods and settings that `SessionContext` and enabled contexts add to DataFusion's context.

    Attributes
    ----------
    partitioned_joins
        Whether joins of partitioned namespaces, and groupings of their rows by the partitioning, are computed
        partition by partition: ``"auto"`` if there are enough rows and groups to make it faster, ``"always"``
        wherever the result is correct, or ``"never"``.
    join_memory_limit
        A limit in bytes for these joins and groupings. With a limit, they process the groups of partitions in
        sequence, as many at a time as fit; without a limit, they process all groups at once. The size of a
        group is estimated.
    scan_options
        The optimizations that statements may use.
    read_only
        Whether statements that change tables are refused.
    """

    read_only: bool = False
    partitioned_joins: PartitionedJoins = "auto"
    join_memory_limit: int | None = None
    scan_options: ScanOptions = ALL

    _typed_functions: TypedFunctions
    _planner: QueryPlanner
    _storage_options: Mapping[str, Any] | None

    def sql(
        self,
        query: str,
        options: SQLOptions | None = None,
        param_values: Mapping[str, Any] | Sequence[Any] | None = None,
        **named_params: Any,
    ) -> LanceDataFrame:
        """Plan a statement, and run it if it changes something.

        This is `datafusion.SessionContext.sql` with the following additions:

        - Each table is read in one version: the newest one, unless a version is pinned.
        - Predicates prune even if DataFusion does not push them into scans.
        - `murmur3` accepts any type.
        - ``CREATE EXTERNAL TABLE t STORED AS LANCE LOCATION '…' OPTIONS('version' '3')`` registers a table.
        - ``FROM t VERSION AS OF 3`` reads another version.
        - INSERT, DELETE, UPDATE, MERGE, TRUNCATE, and CREATE, DROP and ALTER TABLE change stored tables and
          namespaces immediately, and return ``count``.
        - ``param_values`` may also be a list with the values of ``$1``, ``$2`` and so on.

        Raises
        ------
        InvalidInputError
            The statement is invalid. The error is a `ColumnNotFoundError` or `DatasetNotFoundError` if a name
            in it does not exist.
        LanceError
            A table cannot be opened.
        """
        if not isinstance(query, str):
            raise _invalid("query", query, "the text of a statement")
        if options is not None and not isinstance(options, SQLOptions):
            raise InvalidInputError(f"options must be datafusion.SQLOptions, got {type(options).__name__}")
        values = _values_of(param_values)
        written = query
        if named_params:
            query = self._with_named_texts(query, named_params)
        statement = Statement(query, self.scan_options, written=written)
        query = with_selects(bounded(query))
        if may_name_versions(query):
            query = named_versions(query)
        as_written, lowered = query, query.lower()
        if may_change(query):
            with imports_finished():
                from lance_df.engine.statements.run import options_of_others, run_change

            changed = run_change(self, query, options, values)
            if changed is not None:
                return changed
            options = options_of_others(self, query, options)
        with planning_errors(statement, self.names_in):
            if (external := created_external_table(query)) is not None:
                return self._create_external(external, statement, options)
            if "murmur3" in lowered:
                query = self._with_typed_calls(query, values)
            frame = self._planned(query, statement, options, values)
            _log.debug("planned a statement over %d tables: %s", len(statement.tables), query)
            self._planner.note(query)
            if (view := created_view(query)) is not None:
                self._follow_view(view, values)
            if _SHOWS_FUNCTIONS.match(query):
                frame = self._without_helpers(frame)
            elif _LISTS_FUNCTIONS.search(query) and (helpers := self._typed_functions.names()):
                from lance_df.engine.listed_functions import without_functions

                frame = LanceDataFrame(without_functions(self, frame, helpers).df, frame.statements, self)
            return frame if query == as_written else _named_as_written(frame)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Free the caches of the tables that are registered here. The session remains usable.

        Objects that were opened elsewhere and registered here also read their tables again when they are
        used.
        """
        names_of(self).free_caches()

    def table(self, name: str) -> LanceDataFrame:
        """Return a table as a frame. The frame stays at the current version of the table."""
        _check_name(name)
        statement = Statement(f"TABLE {name}", self.scan_options)
        with planning_errors(statement), planning(statement):
            try:
                frame = PlainSessionContext.table(self, name)
            except KeyError as err:
                raise NotFoundError(f"table {name!r} not found") from err
        return LanceDataFrame(frame.df, (statement,), self)

    def register_table(self, name: str, table: Any) -> None:
        """Register a table under a name, as `datafusion.SessionContext.register_table` does.

        A dataset or a namespace of lance_df is registered as by :func:`register`.
        """
        _check_name(name)
        if is_ours(table):
            add_source(self, registered_name_parts(name), as_source(table))
        else:
            try:
                with raised_by_catalog():
                    PlainSessionContext.register_table(self, name, table)
            except (TypeError, ValueError) as err:
                if isinstance(err, LanceError):
                    raise
                raise _invalid("table", table, "a table, a frame or a dataset") from err

    def deregister_table(self, name: str) -> None:
        """Remove the registration of a table, as `datafusion.SessionContext.deregister_table` does.

        Raises
        ------
        InvalidInputError
            The table is in the folder of the session.
        """
        _check_name(name)
        with raised_by_catalog():
            PlainSessionContext.deregister_table(self, name)

    def register_dataset(self, name: str, dataset: Any) -> None:
        """Register a dataset of pyarrow or lance_df under a name; see :meth:`register_table`."""
        if is_ours(dataset):
            self.register_table(name, dataset)
        else:
            _check_name(name)
            import pyarrow.dataset

            if not isinstance(dataset, pyarrow.dataset.Dataset):
                raise _invalid("dataset", dataset, "a dataset of pyarrow or lance_df")
            with raised_by_catalog():
                PlainSessionContext.register_dataset(self, name, dataset)

    def register_udf(self, udf: Any) -> None:
        """Register a scalar function, as `datafusion.SessionContext.register_udf` does.

        A function with the name of a DataFusion function replaces it. lance_df then no longer relies on the
        results of DataFusion's functions: from then on, only predicates that DataFusion pushes into scans
        prune.
        """
        if not hasattr(udf, "_udf"):
            raise _invalid("udf", udf, "a datafusion.ScalarUDF")
        PlainSessionContext.register_udf(self, udf)
        self._planner.user_functions.add(_name_of(udf))

    def register_udaf(self, udaf: Any) -> None:
        """Register an aggregate function, as `datafusion.SessionContext.register_udaf` does.

        A function with the name of a DataFusion function replaces it, as in `register_udf`.
        """
        if not hasattr(udaf, "_udaf"):
            raise _invalid("udaf", udaf, "a datafusion.AggregateUDF")
        PlainSessionContext.register_udaf(self, udaf)
        self._planner.user_functions.add(_name_of(udaf))

    def explain_scan(
        self, query: str, param_values: Mapping[str, Any] | Sequence[Any] | None = None
    ) -> ScanReport:
        """Plan a query, and return a report on what its scans would read and why. No data is read or changed.

        For INSERT, UPDATE, DELETE and CREATE TABLE AS, the report covers the scans of their query or
        condition.

        Raises
        ------
        LanceError
            As for :meth:`sql`; `InvalidInputError` for other statements.
        """
        if isinstance(query, str):
            with imports_finished():
                from lance_df.sql.explained import query_to_explain

            query = query_to_explain(with_selects(query))
        frame = self.sql(query, ONLY_QUERIES, param_values)
        (statement,) = frame.statements
        with planning_errors(statement):
            frame.execution_plan()
            for plan in statement.unit_plans:
                plan()
        from lance_df.engine.report import ScanReport, scan_reports

        return ScanReport(tuple(scan_reports(statement)), tuple(statement.joins), tuple(statement.rules))

    def names_in(self, whole: str) -> tuple[str, list[str]]:
        """Return a missing table's name as users write it, and the names in its schema."""
        catalog, default = default_schema_name(self)
        name = whole.removeprefix(f"{catalog}.{default}.")
        schema = default if name != whole else whole.removeprefix(f"{catalog}.").rpartition(".")[0]
        try:
            known = names_of(self).existing(self, (catalog, schema)) if schema else None
            names = [] if known is None else list(known.table_names)
        except Exception:  # noqa: BLE001 - a folder that cannot be listed has nothing to suggest
            names = []
        return name.removeprefix(f"{catalog}."), names

    def _set_up(self, storage_options: Mapping[str, Any] | None) -> None:
        self._storage_options = storage_options
        self._planner = QueryPlanner()
        self._typed_functions = TypedFunctions(self)
        register_hashes(self)
        register_json_functions(self)
        self._planner.user_functions.clear()
        register_scan_function(self, storage_options)
        names = names_of(self)
        names.lenient = True
        names.schema(self, *default_schema_name(self))

    def plan_query(
        self,
        query: str,
        statement: Statement,
        param_values: dict[str, Any] | None,
        *,
        inserted_as: pa.Schema | None = None,
    ) -> LanceDataFrame:
        """Plan a query that is part of a statement, which may have names of its own.

        Parameters
        ----------
        inserted_as
            For ``VALUES …``: the columns that the values are inserted into. Each value gets the type of its
            column. Otherwise DataFusion gives all values of a column a common type first, which may not hold
            them.
        """
        with planning_errors(statement, self.names_in):
            if "murmur3" in query.lower():
                query = self._with_typed_calls(query, param_values, statement.temporary)
            if inserted_as is None:
                return self._planner.plan(self, query, statement, ONLY_QUERIES, param_values)
            return self._planner.plan_values(self, query, inserted_as, statement, param_values)

    def _planned(
        self,
        query: str,
        statement: Statement,
        options: SQLOptions | None,
        values: dict[str, Any] | None,
    ) -> LanceDataFrame:
        if (explained := explained_query(query)) is not None:
            from lance_df.engine.plans import explained as plans

            frame = self._planner.plan(self, explained, statement, ONLY_QUERIES, values)
            if statement.tables and plans.is_usual(self):
                return LanceDataFrame(plans.explained(self, frame).df, (statement,), self)
        return self._planner.plan(self, query, statement, options, values)

    def _with_named_texts(self, query: str, named_params: Mapping[str, Any]) -> str:
        """Replace placeholders by the texts of named parameters. For a frame, this is the name of a view."""
        with imports_finished():
            from lance_df.sql.placeholders import with_texts

        texts = {}
        for name, value in named_params.items():
            texts[name] = str(value)
            if isinstance(value, DataFrame):
                texts[name] = f"view_{uuid.uuid4().hex}"
                PlainSessionContext.register_table(self, texts[name], value.into_view(temporary=True))
        return with_texts(query, texts)

    def _with_typed_calls(
        self,
        query: str,
        param_values: dict[str, Any] | None,
        temporary: Mapping[str, TableSource] | None = None,
    ) -> str:
        from lance_df.compute.typed_calls import with_typed_calls

        def optimize(text: str) -> None:
            # EXPLAIN keeps DDL from being run
            explained = text if text.lstrip()[:7].upper() == "EXPLAIN" else f"EXPLAIN {text}"
            with planning(Statement(text, self.scan_options, temporary=dict(temporary or {}))):
                PlainSessionContext.sql(self, explained, None, param_values).optimized_logical_plan()

        return with_typed_calls(query, self._typed_functions, optimize)

    def _without_helpers(self, listed: LanceDataFrame) -> LanceDataFrame:
        """Remove the UDFs that implement typed calls of `murmur3` from a list of functions."""
        helpers = [Expr.literal(name) for name in self._typed_functions.names()]
        if not helpers:
            return listed
        public = listed.filter(functions.in_list(col("function_name"), helpers, negated=True))
        return LanceDataFrame(public.df, listed.statements, self)

    def _follow_view(self, view: CreateView, values: dict[str, Any] | None) -> None:
        """Plan the view again at every use: the plan that DataFusion stores would keep today's versions."""
        session = weakref.ref(self)

        def plan() -> Any:
            owner = session()
            if owner is None:
                return None
            frame = PlainSessionContext.sql(owner, view.query, None, values)
            return as_view(with_types_of_rows(owner, frame))

        schema, name = names_of(self).resolve(self, view.name)
        schema.add_view(name, plan)

    def _create_external(
        self, external: CreateExternalTable, statement: Statement, options: SQLOptions | None
    ) -> LanceDataFrame:
        # DDL without effect: it refuses what the options do not allow, and returns what DDL returns
        nothing = PlainSessionContext.sql(self, f'DROP VIEW IF EXISTS "{uuid.uuid4()}"', options)
        schema, name = names_of(self).resolve(self, external.name)
        if not schema.table_exist(name) or external.or_replace:
            schema.add(name, external_source(external, self._storage_options))
        elif not external.if_not_exists:
            raise AlreadyExistsError(
                f"table {name!r} already exists; use CREATE OR REPLACE EXTERNAL TABLE to replace it"
            )
        return LanceDataFrame(nothing.df, (statement,), self)


class SessionContext(LanceSession, PlainSessionContext):  # type: ignore[misc]
    """A `datafusion.SessionContext` that reads and writes Lance tables.

    Parameters
    ----------
    config, runtime
        As for `datafusion.SessionContext`.
    root
        A folder or URL. Every ``x.lance`` below it is the table ``x``, which is looked up each time it is
        used. Its sub-folders are schemas. A name that differs only in case is found if SQL lower-cased it.
        ``None`` for no folder.
    storage_options
        Options for ``root``, `lance_scan` and external tables.
    partitioned_joins, join_memory_limit, scan_options
        See `LanceSession`.
    read_only
        Whether statements that change tables are refused; see :meth:`sql`.

    Raises
    ------
    NotFoundError
        The folder ``root`` does not exist.
    """

    def __init__(
        self,
        config: SessionConfig | None = None,
        runtime: RuntimeEnvBuilder | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        partitioned_joins: PartitionedJoins = "auto",
        join_memory_limit: int | None = None,
        scan_options: ScanOptions = ALL,
        read_only: bool = False,
    ) -> None:
        from lance_df.arguments import checked_flag

        read_only = checked_flag(read_only, "read_only")
        JoinOptions(partitioned_joins, join_memory_limit)
        checked_options(scan_options)
        if runtime is not None and not isinstance(runtime, RuntimeEnvBuilder):
            raise InvalidInputError(f"runtime must be a datafusion.RuntimeEnvBuilder, got {runtime!r}")
        if not isinstance(config, SessionConfig | None):
            raise _invalid("config", config, "a datafusion.SessionConfig")
        config = (config or SessionConfig()).with_information_schema(True)
        construct = super().__init__
        # native code makes a SystemError of a KeyboardInterrupt
        undisturbed(lambda: construct(config, runtime))
        if root is not None:
            location = open_location(root, storage_options)
            location.check_listable()
            questions: list[Callable[[], bool]] = [
                location.exists,
                location.is_file,
                lambda: location.name.endswith(SUFFIX) or holds_table(location),
            ]
            exists, is_file, is_table = map_reads(lambda ask: ask(), questions, where=location)
            if not exists:
                raise NotFoundError(f"{location.uri}: folder does not exist")
            if is_file:
                raise InvalidInputError(f"{location.uri}: expected a folder, got a file")
            location.check_is_folder()
            names_of(self).use_folder(self, TableFolder(location, storage_options))
            if is_table:  # the folder is a table itself
                source = TableSource(location.uri, storage_options=storage_options)
                names_of(self).schema(self, *default_schema_name(self)).add(
                    location.name.removesuffix(SUFFIX), source
                )
        self._set_up(storage_options)
        self.partitioned_joins = partitioned_joins
        self.join_memory_limit = join_memory_limit
        self.scan_options = scan_options
        self.read_only = read_only


def connect(
    root: str | os.PathLike[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    allowed_base_schemes: Iterable[str] | None = None,
    config: SessionConfig | None = None,
    runtime: RuntimeEnvBuilder | None = None,
    partitioned_joins: PartitionedJoins = "auto",
    join_memory_limit: int | None = None,
    scan_options: ScanOptions = ALL,
    read_only: bool = False,
) -> SessionContext:
    """Return a session in which the tables below ``root`` can be queried by name; see `SessionContext`.

    ``allowed_base_schemes`` are URL schemes that base paths of tables may have; see `lance_df.dataset`.
    """
    return SessionContext(
        config,
        runtime,
        root=root,
        storage_options=with_allowed_schemes(storage_options, allowed_base_schemes),
        partitioned_joins=partitioned_joins,
        join_memory_limit=join_memory_limit,
        scan_options=scan_options,
        read_only=read_only,
    )


def enable(ctx: SomeContext) -> SomeContext:
    """Add all features of `lance_df.SessionContext` to an existing context, and return it.

    The object keeps its identity and its tables. Its class becomes a class that inherits from `LanceSession`
    first and from its former class second.
    """
    if not isinstance(ctx, LanceSession):
        names_of(ctx)
        former = type(ctx)
        ctx.__class__ = type(former.__name__, (LanceSession, former), {"__module__": former.__module__})
        ctx._set_up(None)
    return ctx


def _invalid(argument: str, value: object, expected: str) -> InvalidInputError:
    from lance_df.arguments import invalid

    return invalid(argument, value, expected)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise _invalid("name", name, "the name of a table")


def _name_of(function: Any) -> str:
    return str(function).partition("(")[2].removesuffix(")")


def _values_of(given: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    with imports_finished():
        from lance_df.engine.parameters import parameter_values

    return parameter_values(given)


def _named_as_written(frame: LanceDataFrame) -> LanceDataFrame:
    """Rename output columns to the function names that the user wrote."""
    names = frame.schema().names
    wanted = [plain_name(name) for name in names]
    if wanted == names or len(set(names)) < len(names):
        return frame
    pairs = zip(names, wanted, strict=True)
    return frame.select(*(col(quote_identifier(name)).alias(new) for name, new in pairs))

"""Sessions: DataFusion contexts in which names lead to Lance tables and every predicate prunes."""

from __future__ import annotations

import logging
import os
import re
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pyarrow.dataset

from lance_df.compute.compat import (
    DataFrame,
    Expr,
    PlainSessionContext,
    SessionConfig,
    SQLOptions,
    Table,
    as_view,
    col,
    default_schema_name,
    functions,
)
from lance_df.compute.json_functions import register_json_functions
from lance_df.compute.typed_functions import TypedFunctions, plain_name, register_hashes
from lance_df.engine.dataframe import LanceDataFrame, with_outer_limit, with_types_of_rows
from lance_df.engine.failures import planning_errors, raised_by_catalog
from lance_df.engine.optimizer.join_options import JoinOptions, PartitionedJoins
from lance_df.engine.optimizer.planned import Context, Planned, PlannedFrame, may_be_large
from lance_df.engine.optimizer.settings import JoinSettings
from lance_df.engine.plans.logical_scans import PlanScans, is_among
from lance_df.engine.plans.walks import joins_without_keys, may_join_without_keys, nodes
from lance_df.engine.pruning.requests import requests_of
from lance_df.engine.statement import Statement, planning
from lance_df.engine.tables.created import (
    created_external_table,
    created_view,
    external_source,
    may_change,
    may_name_versions,
    name_parts,
    named_versions,
    query_of_created_table,
    registered_name_parts,
    with_selects,
)
from lance_df.engine.tables.folders import SUFFIX, TableFolder, holds_table
from lance_df.engine.tables.names import names_of
from lance_df.engine.tables.scan_function import register_scan_function
from lance_df.engine.tables.source import TableSource, as_source, is_ours
from lance_df.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from lance_df.interrupts import imports_finished, undisturbed
from lance_df.records import replace
from lance_df.scan.options import ALL, ScanOptions
from lance_df.sql.nesting import bounded
from lance_df.sql.splice import quote_identifier
from lance_df.storage import open_location
from lance_df.storage.schemes import with_allowed_schemes
from lance_df.table.metadata.refs import VersionRef
from lance_df.table.parallel import map_reads

if TYPE_CHECKING:
    from lance_df.engine.prepared import PreparedStatements
    from lance_df.engine.report import ScanReport
    from lance_df.engine.statement import PlannedTable
    from lance_df.sql.statements import CreateExternalTable, CreateView

SomeContext = TypeVar("SomeContext", bound=PlainSessionContext)

_log = logging.getLogger("lance_df")
_NO_LIMIT = 2**62
_SMALL_BATCH = 8192
_SHOWS_FUNCTIONS = re.compile(r"\s*show\s+functions\b", re.IGNORECASE)
_LISTS_FUNCTIONS = re.compile(r"\b(routines|parameters)\b", re.IGNORECASE)
_ONLY_QUERIES = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)


class LanceSession:
    """What `SessionContext` and an enabled context have beyond DataFusion's context.

    Attributes
    ----------
    partitioned_joins
        Whether partitioned namespaces are joined, and their rows grouped by what they are partitioned by,
        partition by partition: ``"auto"`` where there are enough rows and groups for it to pay, ``"always"``
        wherever it is right, ``"never"``.
    join_memory_limit
        Bytes. With it these take one group of partitions after the other, as many at a time as fit;
        without it all at once. The size of a group is estimated.
    scan_options
        What may be done to take less time.
    read_only
        Whether statements that change tables are refused.
    """

    read_only: bool = False
    partitioned_joins: PartitionedJoins = "auto"
    join_memory_limit: int | None = None
    scan_options: ScanOptions = ALL

    _typed_functions: TypedFunctions
    _join_settings: JoinSettings
    _prepared: PreparedStatements | None
    _storage_options: Mapping[str, Any] | None
    _registered: set[str]

    def sql(
        self,
        query: str,
        options: SQLOptions | None = None,
        param_values: Mapping[str, Any] | Sequence[Any] | None = None,
        **named_params: Any,
    ) -> LanceDataFrame:
        """Plan a statement; run it when it changes something.

        As `datafusion.SessionContext.sql`, and besides: each table is read in one version, the newest unless
        it is pinned; predicates that DataFusion does not push into scans prune all the same; `murmur3` takes
        any type; ``CREATE EXTERNAL TABLE t STORED AS LANCE LOCATION '…' OPTIONS('version' '3')`` works.
        ``FROM t VERSION AS OF 3`` reads another version. INSERT, DELETE, UPDATE, MERGE, TRUNCATE, and
        CREATE, DROP and ALTER TABLE change stored tables and namespaces at once, and return ``count``.
        ``param_values`` may also be a list, of the values of ``$1``, ``$2`` and so on.

        Raises
        ------
        InvalidInputError
            The statement is wrong; `ColumnNotFoundError` or `DatasetNotFoundError` when a name in it is.
        LanceError
            A table cannot be opened.
        """
        if not isinstance(query, str):
            raise InvalidInputError(f"a statement is text, not {type(query).__name__}")
        if options is not None and not isinstance(options, SQLOptions):
            raise InvalidInputError(f"options are datafusion.SQLOptions, not {type(options).__name__}")
        values = _values_of(param_values)
        statement = Statement(query, self.scan_options)
        query = with_selects(bounded(query))
        if may_name_versions(query):
            query = named_versions(query)
        as_written, lowered = query, query.lower()
        if may_change(query):
            with imports_finished():
                from lance_df.engine.statements.run import run_change
                from lance_df.engine.statements.target import Parameters

            changed = run_change(self, query, options, Parameters(values, named_params))
            if changed is not None:
                return changed
        with planning_errors(statement, self.names_in):
            if (external := created_external_table(query)) is not None:
                return self._create_external(external, statement, options)
            if "murmur3" in lowered:
                query = self._with_typed_calls(query, values)
            frame = self._plan(query, statement, options, values, named_params)
            _log.debug("planned a statement over %d tables: %s", len(statement.tables), query)
            self._join_settings.forget(lowered)
            if "prepare" in lowered or "deallocate" in lowered:
                self._note_prepared(query)
            if (view := created_view(query)) is not None:
                self._follow_view(view)
            if _SHOWS_FUNCTIONS.match(query):
                frame = self._without_helpers(frame)
            elif _LISTS_FUNCTIONS.search(query) and (helpers := self._typed_functions.names()):
                from lance_df.engine.listed_functions import without_functions

                frame = LanceDataFrame(without_functions(self, frame, helpers).df, frame.statements, self)
            return frame if query == as_written else _named_as_written(frame)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Free what is cached of the tables that have a name here. The session goes on working.

        Objects that were opened elsewhere and given a name here are read again, too, when they are used.
        """
        names_of(self).free_caches()

    def table(self, name: str) -> LanceDataFrame:
        """Return a table as a frame; it stays at the version that is current now."""
        statement = Statement(f"TABLE {name}", self.scan_options)
        with planning_errors(statement), planning(statement):
            try:
                frame = PlainSessionContext.table(self, name)
            except KeyError as err:
                raise NotFoundError(f"no table {name!r}") from err
        return LanceDataFrame(frame.df, (statement,), self)

    def register_table(self, name: str, table: Any) -> None:
        """Give a name to a table, as `datafusion.SessionContext.register_table`.

        A dataset or a namespace of lance_df is registered as by :func:`register`.
        """
        if is_ours(table):
            _add(self, registered_name_parts(name), as_source(table))
        else:
            with raised_by_catalog():
                PlainSessionContext.register_table(self, name, table)

    def deregister_table(self, name: str) -> None:
        """Take a name away, as `datafusion.SessionContext.deregister_table`.

        Raises
        ------
        InvalidInputError
            It is that of a table of a folder.
        """
        with raised_by_catalog():
            PlainSessionContext.deregister_table(self, name)

    def register_dataset(self, name: str, dataset: Any) -> None:
        """Give a name to a dataset of pyarrow's, or of lance_df, as :meth:`register_table`."""
        if is_ours(dataset):
            self.register_table(name, dataset)
        else:
            with raised_by_catalog():
                PlainSessionContext.register_dataset(self, name, dataset)

    def register_udf(self, udf: Any) -> None:
        """Register a scalar function, as `datafusion.SessionContext.register_udf`.

        One that has the name of a function of DataFusion replaces it, and what the other would give proves
        nothing any more: from then on only what DataFusion pushes into scans prunes.
        """
        PlainSessionContext.register_udf(self, udf)
        self._registered.add(_name_of(udf))

    def register_udaf(self, udaf: Any) -> None:
        """Register an aggregate function, as `datafusion.SessionContext.register_udaf`.

        One that has the name of a function of DataFusion replaces it, as in `register_udf`.
        """
        PlainSessionContext.register_udaf(self, udaf)
        self._registered.add(_name_of(udaf))

    def explain_scan(
        self, query: str, param_values: Mapping[str, Any] | Sequence[Any] | None = None
    ) -> ScanReport:
        """Plan a query, and report what its scans would read and why. No data is read, and none is changed.

        Of INSERT, UPDATE, DELETE and CREATE TABLE AS these are the scans of their query or condition.

        Raises
        ------
        LanceError
            As :meth:`sql`; `InvalidInputError` for other statements.
        """
        if isinstance(query, str):
            with imports_finished():
                from lance_df.sql.explained import query_to_explain

            query = query_to_explain(with_selects(query))
        frame = self.sql(query, _ONLY_QUERIES, param_values)
        (statement,) = frame.statements
        with planning_errors(statement):
            frame.execution_plan()
            for plan in statement.unit_plans:
                plan()
        from lance_df.engine.report import ScanReport, scan_reports

        return ScanReport(tuple(scan_reports(statement)), tuple(statement.joins), tuple(statement.rules))

    def names_in(self, whole: str) -> tuple[str, list[str]]:
        """Return a table that is missing as users name it, and the names in its schema."""
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
        self._registered = set()
        self._typed_functions = TypedFunctions(self)
        self._join_settings = JoinSettings()
        self._prepared = None
        register_hashes(self)
        register_json_functions(self)
        self._registered.clear()
        register_scan_function(self, storage_options)
        names = names_of(self)
        names.lenient = True
        names.schema(self, *default_schema_name(self))

    def plan_query(
        self,
        query: str,
        statement: Statement,
        param_values: dict[str, Any] | None,
        named_params: dict[str, Any],
    ) -> LanceDataFrame:
        """Plan a query that is a part of a statement, which may have names of its own."""
        with planning_errors(statement, self.names_in):
            if "murmur3" in query.lower():
                query = self._with_typed_calls(query, param_values, statement.temporary)
            return self._plan(query, statement, _ONLY_QUERIES, param_values, named_params)

    def _plan(
        self,
        query: str,
        statement: Statement,
        options: SQLOptions | None,
        param_values: dict[str, Any] | None,
        named_params: dict[str, Any],
    ) -> LanceDataFrame:
        def plan() -> DataFrame:
            frame = PlainSessionContext.sql(self, query, options, param_values, **named_params)
            anew = None if self._prepared is None else self._prepared.planned_anew(self, query)
            return frame if anew is None else anew

        # predicates prove nothing where functions of the user's have the names of built-in ones
        can_prove = not (self._registered and _replaces_functions(self._registered))
        tables: Mapping[int, PlannedTable] = {}
        if (source := query_of_created_table(query)) is not None:  # DataFusion runs it at once
            ahead, _ = statement.planned_over(
                {},
                lambda: PlainSessionContext.sql(self, source, _ONLY_QUERIES, param_values, **named_params),
            )
            tables, _ = self._requests(statement, ahead.optimized_logical_plan(), can_prove)
        frame, slots = statement.planned_over(tables, plan)
        plan_of_frame = frame.optimized_logical_plan()
        if not statement.tables:
            statement.stops_late = may_join_without_keys(nodes(plan_of_frame))
            return LanceDataFrame(with_types_of_rows(self, frame, plan_of_frame).df, (statement,), self)
        tables, read = self._requests(statement, plan_of_frame, can_prove)
        statement.note(tables)
        if read is None:
            frame = with_types_of_rows(self, statement.planned_over(tables, plan)[0])
            return LanceDataFrame(frame.df, (statement,), self)
        typed = with_types_of_rows(self, frame, plan_of_frame)

        def plan_again(others: Mapping[int, PlannedTable]) -> PlannedFrame:
            again, slots = statement.planned_over(others, plan)
            return PlannedFrame(again if typed is frame else with_types_of_rows(self, again), slots)

        is_large = can_prove and may_be_large(tables)
        planned = Planned(typed, plan_of_frame, tables, plan_again, slots, read, is_large)
        if can_prove and not statement.is_change and (is_large or planned.reads_namespaces):
            from lance_df.engine.optimizer.driver import optimized

            planned = optimized(planned, self._context_of(statement))
        planned.complete()
        statement.note(planned.tables)
        return LanceDataFrame(with_outer_limit(planned.frame).df, (statement,), self)

    def _requests(
        self, statement: Statement, plan: Any, can_prove: bool
    ) -> tuple[dict[int, PlannedTable], PlanScans | None]:
        """Return what the scans of a plan request, and what it reads; None where it has to be made anew."""
        read = PlanScans.of(plan)
        statement.stops_late = may_join_without_keys(read.nodes)
        unpushed = [scan.unpushed() for scan in read.scans] if read.blocked else read.scans
        tables = requests_of(statement.tables, plan, unpushed, can_prove=can_prove)
        if joins_without_keys(read.nodes):
            tables = {key: _in_small_batches(table) for key, table in tables.items()}
        if not read.blocked:
            return tables, read
        self._stand_in(statement, tables, read.blocked)
        return tables, None

    def _context_of(self, statement: Statement) -> Context:
        return Context(
            self,
            statement,
            JoinOptions(self.partitioned_joins, self.join_memory_limit),
            self._registered,
            lambda: self._join_settings.of(self),
        )

    def _stand_in(
        self, statement: Statement, tables: Mapping[int, PlannedTable], blocked: Sequence[str]
    ) -> None:
        """Keep DataFusion from pushing filters into tables where that fails, see `LogicalScan.is_blocked`.

        A filter does not pass a LIMIT, so DataFusion applies it above the scan.
        """
        for key, table in tables.items():
            if any(is_among(blocked, name) for _, name in table.names):
                frame = PlainSessionContext.read_table(self, Table(table.provider())).limit(_NO_LIMIT)
                statement.stand_ins[key] = as_view(frame)

    def _note_prepared(self, query: str) -> None:
        from lance_df.engine.prepared import PreparedStatements

        self._prepared = self._prepared or PreparedStatements()
        self._prepared.note(query)

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
        """Leave the UDFs that stand for calls of `murmur3` out of a list of functions."""
        helpers = [Expr.literal(name) for name in self._typed_functions.names()]
        if not helpers:
            return listed
        public = listed.filter(functions.in_list(col("function_name"), helpers, negated=True))
        return LanceDataFrame(public.df, listed.statements, self)

    def _follow_view(self, view: CreateView) -> None:
        """Plan the view anew at every use: the plan that DataFusion keeps stays at today's versions."""
        session = weakref.ref(self)

        def plan() -> Any:
            owner = session()
            if owner is None:
                return None
            return as_view(with_types_of_rows(owner, PlainSessionContext.sql(owner, view.query)))

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
            raise AlreadyExistsError(f"table {name!r} exists; CREATE OR REPLACE EXTERNAL TABLE replaces it")
        return LanceDataFrame(nothing.df, (statement,), self)


class SessionContext(LanceSession, PlainSessionContext):  # type: ignore[misc]
    """A `datafusion.SessionContext` that knows Lance.

    Parameters
    ----------
    config, runtime
        As for DataFusion's.
    root
        A folder or URL: every ``x.lance`` below it is the table ``x``, looked up live; its sub-folders are
        schemas. A name differing in case only is found when SQL lower-cased it. ``None`` for no folder.
    storage_options
        For ``root`` and for `lance_scan` and external tables.
    partitioned_joins, join_memory_limit, scan_options
        See `LanceSession`.
    read_only
        Whether statements that change tables are refused; see :meth:`sql`.

    Raises
    ------
    NotFoundError
        There is no folder ``root``.
    """

    def __init__(
        self,
        config: SessionConfig | None = None,
        runtime: Any = None,
        *,
        root: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        partitioned_joins: PartitionedJoins = "auto",
        join_memory_limit: int | None = None,
        scan_options: ScanOptions = ALL,
        read_only: bool = False,
    ) -> None:
        JoinOptions(partitioned_joins, join_memory_limit)
        if not isinstance(scan_options, ScanOptions):
            raise InvalidInputError(f"scan_options is {scan_options!r}, expected a lance_df.ScanOptions")
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
                raise NotFoundError(f"{location.uri}: no such folder")
            if is_file:
                raise InvalidInputError(f"{location.uri}: a file; the folder of the tables is needed")
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
        self.read_only = bool(read_only)


def connect(
    root: str | os.PathLike[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    allowed_base_schemes: Iterable[str] | None = None,
    config: SessionConfig | None = None,
    partitioned_joins: PartitionedJoins = "auto",
    join_memory_limit: int | None = None,
    scan_options: ScanOptions = ALL,
    read_only: bool = False,
) -> SessionContext:
    """Return a session in which the tables below ``root`` have names; see `SessionContext`.

    ``allowed_base_schemes`` are kinds of URLs that base paths of tables may have, see `lance_df.dataset`.
    """
    return SessionContext(
        config,
        root=root,
        storage_options=with_allowed_schemes(storage_options, allowed_base_schemes),
        partitioned_joins=partitioned_joins,
        join_memory_limit=join_memory_limit,
        scan_options=scan_options,
        read_only=read_only,
    )


def enable(ctx: SomeContext) -> SomeContext:
    """Give an existing context all that a `SessionContext` of ours can do, and return it.

    The object keeps its identity and its tables; its class becomes one with `LanceSession` before its own.
    """
    if not isinstance(ctx, LanceSession):
        names_of(ctx)
        former = type(ctx)
        ctx.__class__ = type(former.__name__, (LanceSession, former), {"__module__": former.__module__})
        ctx._set_up(None)
    return ctx


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
    _add(ctx, parts, as_source(source, version=version, storage_options=options))


def _add(ctx: PlainSessionContext, name: tuple[str, ...], source: TableSource) -> None:
    source.open()
    schema, table = names_of(ctx).resolve(ctx, name)
    schema.add(table, source)


def _in_small_batches(table: PlannedTable) -> PlannedTable:
    """Let DataFusion come by often: a join without keys compares a batch with all rows of the other side."""
    return replace(table, scan=table.scan.requesting(batch_rows=_SMALL_BATCH))


def _name_of(function: Any) -> str:
    return str(function).partition("(")[2].removesuffix(")")


def _replaces_functions(names: set[str]) -> bool:
    from lance_df.compute.calculator import evaluator
    from lance_df.engine.plans.partial_aggregates import MERGED_FUNCTIONS

    return not names.isdisjoint(MERGED_FUNCTIONS) or evaluator().replaces(names)


def _values_of(given: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    with imports_finished():
        from lance_df.engine.parameters import parameter_values

    return parameter_values(given)


def _named_as_written(frame: LanceDataFrame) -> LanceDataFrame:
    """Give output columns the names that the functions of the user's text give them."""
    names = frame.schema().names
    wanted = [plain_name(name) for name in names]
    if wanted == names or len(set(names)) < len(names):
        return frame
    pairs = zip(names, wanted, strict=True)
    return frame.select(*(col(quote_identifier(name)).alias(new) for name, new in pairs))

"""The table that a statement changes, and queries over its rows that return their positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from lance_df.compute.compat import col, functions, lit
from lance_df.engine.failures import planning_errors, streamed_batches
from lance_df.engine.plans.nodes import plan_of
from lance_df.engine.statement import Statement
from lance_df.engine.tables.source import TableSource
from lance_df.engine.time_comparisons import check_time_comparisons
from lance_df.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from lance_df.expr.nodes import And
from lance_df.expr.text_views import parts_of_texts
from lance_df.format.blobs import is_blob_input
from lance_df.format.schema import BLOB_KEY
from lance_df.namespace.changes.numbered_members import MEMBER, NumberedMembers
from lance_df.records import dataclass
from lance_df.sql.placeholders import with_untyped_placeholders
from lance_df.sql.splice import quote_identifier
from lance_df.table.reading.system_columns import ROW_ADDRESS
from lance_df.table.table import Table

if TYPE_CHECKING:
    from lance_df.compute.compat import DataFrame
    from lance_df.engine.dataframe import LanceDataFrame
    from lance_df.engine.session import LanceSession
    from lance_df.expr.nodes import Predicate
    from lance_df.format.schema import Schema
    from lance_df.namespace.snapshot import NamespaceSnapshot

_TARGET: Final = "__lance_df_target"


@dataclass(frozen=True, slots=True)
class Target:
    """A table or a namespace that a statement changes.

    Attributes
    ----------
    opened
        The newest version at the start of the statement.
    values
        The values of the statement's placeholders, by name.
    written
        The statement as the user wrote it, for messages.
    """

    session: LanceSession
    source: TableSource
    opened: Table | NamespaceSnapshot
    values: dict[str, Any] | None
    written: str

    @classmethod
    def of(
        cls, session: LanceSession, source: TableSource, values: dict[str, Any] | None, written: str
    ) -> Target:
        """Open the newest version of a source as a target.

        Raises
        ------
        InvalidInputError
            The source stays at an older version.
        """
        opened = source.current()
        if source.is_pinned:
            raise InvalidInputError(
                f"{opened.uri}: the table is registered at version {opened.version} and cannot be changed; "
                "register it without a version"
            )
        check_addressable(opened)
        return cls(session, source, opened, values, written)

    @property
    def namespace(self) -> NamespaceSnapshot | None:
        """The partitioned namespace; None for a table."""
        return self.opened.namespace

    @property
    def schema(self) -> Schema:
        """The columns of the table."""
        return schema_of(self.opened)

    def types(self, names: Sequence[str]) -> dict[str, pa.DataType]:
        """Return the types of columns that the statement writes.

        Raises
        ------
        ColumnNotFoundError
            A column does not exist.
        UnsupportedFeatureError
            A column holds JSON, whose stored form SQL does not return.
        """
        fields = {name: self.schema.field(name) for name in names}
        for name, field in fields.items():
            if any(each.is_json for each in field.walk()):
                raise UnsupportedFeatureError(
                    f"column {name!r} holds JSON, which statements cannot write; leave it out, or use "
                    "LanceDataset.insert or merge_insert with a column of pyarrow.json_()"
                )
        return {name: field.arrow_type() for name, field in fields.items()}

    def query(self, text: str, version: Table | NamespaceSnapshot | None = None) -> Query:
        """Plan a query in the session. Names of the table refer to the given version."""
        statement = Statement(text, self.session.scan_options, is_change=True, written=self.written)
        seen = self.opened if version is None else version
        statement.see(self.source, seen)
        return Query(self, statement, text)

    def query_of_rows(self, text: str, version: Table) -> Query:
        """Plan a query over `ROWS`, the rows of a version of a table, with their addresses."""
        query = self.query(text, version)
        query.statement.temporary[_TARGET] = TableSource(
            version, is_pinned=True, extra_columns=(ROW_ADDRESS,)
        )
        return query

    def check_names(self, text: str) -> None:
        """Plan a query over `ROWS` without address columns, which users cannot name.

        Raises
        ------
        ColumnNotFoundError
            The query uses an address column, or another column that does not exist.
        """
        if ROW_ADDRESS in text.lower():
            query = self.query(text)
            query.statement.temporary[_TARGET] = TableSource(self.opened, is_pinned=True)
            query.frame()

    def query_of_members(self, text: str, tables: Sequence[Table]) -> Query:
        """Plan a query over `ROWS`, the rows of some members, with the numbers of the members."""
        for table in tables:
            check_addressable(table)
        namespace = self.namespace
        assert namespace is not None
        query = self.query(text)
        members = NumberedMembers(namespace, tables)
        source = TableSource(members, is_pinned=True, extra_columns=(ROW_ADDRESS,))
        query.statement.temporary[_TARGET] = source
        return query


ROWS: Final = quote_identifier(_TARGET)
"""The name, in queries over its rows, of the table that a statement changes."""


class Query:
    """A query of a statement that changes a table."""

    def __init__(self, target: Target, statement: Statement, text: str) -> None:
        self.statement = statement
        self._target = target
        self._text = text

    def frame(self) -> LanceDataFrame:
        """Return the frame of the query."""
        return self._target.session.plan_query(self._text, self.statement, self._target.values)

    def values_frame(self, types: Mapping[str, pa.DataType]) -> LanceDataFrame | None:
        """Return the frame of ``VALUES`` with the given column types; None if it cannot be planned."""
        text = with_untyped_placeholders(self._text) if "$" in self._text else self._text
        with suppress(LanceError):
            return self._target.session.plan_query(
                text, self.statement, self._target.values, inserted_as=pa.schema(types.items())
            )
        return None

    def batches(
        self, types: Mapping[str, pa.DataType], names: Mapping[str, str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Plan the query now, and yield its rows, which change, later, with columns of these types.

        ``names`` are the names of columns in messages, if the query has others.
        """
        frame = self.frame()
        with planning_errors(self.statement):
            schemas = [table.stored_schema for table in self.statement.tables.values()]
            check_time_comparisons(self._target.session, plan_of(frame), self._text, schemas)
        return typed_batches(frame, types, self.statement, names)

    def condition(self) -> Predicate | None:
        """Return a condition that holds for all rows of `ROWS` that the query reads; None if unknown."""
        self.frame()
        for table in self.statement.tables.values():
            if any(name == _TARGET for _, name in table.names):
                request = table.scan.request
                known = (request.predicate, request.pruning_predicate)
                parts = tuple(each for each in known if each is not None)
                return And(parts) if parts else None
        return None


def typed_batches(
    frame: DataFrame,
    types: Mapping[str, pa.DataType],
    statement: Statement,
    names: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Return the rows of a frame with columns of the given types, cast as by SQL's CAST.

    Bytes and text become blobs with these bytes.

    Parameters
    ----------
    names
        See `Query.batches`.

    Raises
    ------
    UnsupportedFeatureError
        A column holds blobs.
    InvalidInputError
        A column cannot be cast. From the batches: a value cannot be cast.
    """
    schema = frame.schema()
    given = {field.name: field.type for field in schema}
    descriptions = {
        _columns_of(field.type)
        for each in (schema, *(table.stored_schema for table in statement.tables.values()))
        for field in _fields_within(each)
        if _describes_blobs(field)
    }
    for field in schema if descriptions else ():
        # the results of functions have no metadata
        if all(_columns_of(each.type) not in descriptions for each in _fields_within([field])):
            continue
        name = field.name if names is None else names.get(field.name, field.name)
        raise UnsupportedFeatureError(
            f"column {name!r} holds blobs, and queries return their positions instead of their bytes, so "
            "statements cannot copy them; leave the column out, or write the rows of "
            "dataset.scanner(blob_handling='all_binary')"
        )
    with planning_errors(statement):
        columns = [
            col(quote_identifier(name))
            if _is_stored_as(given[name], wanted)
            else _cast(name, given[name], wanted).alias(name)
            for name, wanted in types.items()
        ]
        typed = frame.select(*columns)
    return _batches(typed, types, statement)


def _batches(
    frame: DataFrame, types: Mapping[str, pa.DataType], statement: Statement
) -> Iterator[pa.RecordBatch]:
    schema = pa.schema(types.items())
    for batch in streamed_batches(frame.execute_stream, [statement]):
        for part in parts_of_texts(batch):
            columns = [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(part.columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(name: str, given: pa.DataType, wanted: pa.DataType) -> Any:
    """Return a column, cast to a type. Bytes and text are the content of blobs."""
    column = col(quote_identifier(name))
    types = pa.types
    is_content = any(
        test(given)
        for test in (
            *(types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary),
            *(types.is_string, types.is_large_string, types.is_string_view, types.is_null),
        )
    )
    if not is_content or not is_blob_input(wanted):
        return column.cast(wanted)
    # all fields are named, since DataFusion before 53 has no cast that adds some
    content = column.cast(pa.large_binary())
    fields = [
        (field.name, content if field.name == "data" else lit(None).cast(field.type))
        for field in (wanted.field(number) for number in range(wanted.num_fields))
    ]
    return functions.when(column.is_not_null(), functions.named_struct(fields)).end().cast(wanted)


def _fields_within(fields: Iterable[pa.Field]) -> Iterator[pa.Field]:
    """Yield fields, and the fields of nested types at any depth."""
    for field in fields:
        yield field
        yield from _fields_within(field.type.field(number) for number in range(field.type.num_fields))


def _columns_of(data_type: pa.DataType) -> tuple[tuple[str, pa.DataType], ...]:
    """Return the names and types of the fields of a struct; nothing for other types."""
    fields = data_type if pa.types.is_struct(data_type) else ()
    return tuple((field.name, field.type) for field in fields)


def _describes_blobs(field: pa.Field) -> bool:
    """Whether a column of a query holds the positions of blobs instead of their bytes."""
    marked = (field.metadata or {}).get(BLOB_KEY.encode(), b"").lower() == b"true"
    return marked and pa.types.is_struct(field.type)


def _is_stored_as(given: pa.DataType, wanted: pa.DataType) -> bool:
    return given == wanted or (given, wanted) in (
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
    )


def schema_of(opened: Table | NamespaceSnapshot) -> Schema:
    """Return the columns of a table or a namespace."""
    namespace = opened.namespace
    return cast(Table, opened).schema if namespace is None else namespace.manifest.schema.columns


def check_addressable(opened: Table | NamespaceSnapshot) -> None:
    """Check that no column has the name of an address column.

    Raises
    ------
    UnsupportedFeatureError
        A column has a reserved name.
    """
    for name in (ROW_ADDRESS, MEMBER.name):
        if name in schema_of(opened).names:
            raise UnsupportedFeatureError(
                f"{opened.uri}: the column name {name!r} is reserved; rename the column before you change "
                "rows"
            )

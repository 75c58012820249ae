"""The query of a merge, by which Spark computes the action for each row of the target and the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.column import Column

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.format.column_path import format_path, quoted_name
from lance_df.format.schema import Schema
from lance_df.records import dataclass
from lance_df.spark.assignment import assigned_type, is_ansi, wanted_type
from lance_df.spark.changes.merge_keys import are_equal_as_stored, is_rounded, loses_values
from lance_df.spark.changes.merge_tasks import ACTION, ADDRESS, TABLE, ClauseWrite, MergeScan
from lance_df.spark.column_names import schema_with_target_names, type_with_target_names
from lance_df.spark.routes import route
from lance_df.spark.types import arrow_schema, spark_schema
from lance_df.sql.changes import MergeAction, RowKind
from lance_df.table.key_values import is_comparable
from lance_df.table.writing.conform import schema_to_write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from lance_df.format.schema import Field
    from lance_df.spark.changes.targets import Targets

Expression: TypeAlias = "str | Column"
"""Spark SQL over ``source.…`` and ``target.…``, or a Spark column."""

_COUNT: Final = "__lance_df_count"
_HIT: Final = "__lance_df_hit"
_ROUTE: Final = "__lance_df_route"
_KEY: Final = "__lance_df_key_"
_VALUE: Final = "__lance_df_value_"
_SOURCE, _TARGET = "source", "target"
_ADDRESS_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class MergeClause:
    """The action for rows of a kind for which its condition is true, and no earlier clause applies.

    Attributes
    ----------
    values
        Columns and expressions of their values; None for all columns of the source.
    """

    rows: RowKind
    action: MergeAction
    condition: Expression | None = None
    values: tuple[tuple[str, Expression], ...] | None = None

    @property
    def expressions(self) -> Iterable[Expression]:
        """The condition and the values of the clause."""
        if self.condition is not None:
            yield self.condition
        for _, value in self.values or ():
            yield value


class MergeQuery:
    """A merge of one source into a target.

    Parameters
    ----------
    schema, stored
        The columns of the target.
    source
        The rows to merge.
    on
        The key columns, which both sides have.

    Raises
    ------
    InvalidInputError
        The source has a column that the target lacks, no key, or a key of a type that Spark compares
        inexactly; or an insert lacks a column that must not be null.
    UnsupportedFeatureError
        The type of a key cannot be compared, or Spark has no type with the same values.
    """

    def __init__(
        self,
        schema: Schema,
        stored: pa.Schema,
        source: DataFrame,
        on: tuple[str, ...],
        clauses: Sequence[MergeClause],
    ) -> None:
        self._schema = schema
        self._stored = stored
        self._source = source
        self._on = on
        self._clauses = clauses
        self._given_schema = schema_with_target_names(source, stored)
        self._check_keys()
        self._values: list[_Value] = []
        self._givens = [self._given(clause) for clause in clauses]

    @property
    def reads_all(self) -> bool:
        """Whether the merge may change rows of the target that match nothing."""
        return RowKind.NOT_MATCHED_BY_SOURCE in self._kinds

    @property
    def inserts(self) -> bool:
        """Whether the merge may insert rows."""
        return RowKind.NOT_MATCHED in self._kinds

    @property
    def _kinds(self) -> set[RowKind]:
        return {clause.rows for clause in self._clauses}

    def check_distinct_keys(self) -> None:
        """Check that no two rows of the source have the same key; a key with a NULL equals nothing.

        Raises
        ------
        InvalidInputError
            Several rows have the same key.
        """
        columns = [F.col(quoted_name(name)) for name in self._on]
        rows = self._source
        for column in columns:
            rows = rows.where(column.isNotNull())
        counted = rows.groupBy(*columns).agg(F.count(F.lit(1)).alias(_COUNT))
        for first in counted.where(F.col(_COUNT) > 1).limit(1).collect():
            key = ", ".join(f"{name} = {first[at]!r:.60}" for at, name in enumerate(self._on))
            raise InvalidInputError(
                f"several rows of a batch have the key {key}; remove the duplicate rows first"
            )

    def scan(self, keys: tuple[pa.Array, ...] | None) -> tuple[MergeScan, T.StructType]:
        """Return the scan of the target, and the schema of its rows in Spark.

        Parameters
        ----------
        keys
            The keys of the source, if they are few and rows with other keys do not change.
        """
        needed = [name for name in self._stored.names if name in self._on or self._is_mentioned(name)]
        columns = spark_schema(pa.schema([self._stored.field(name) for name in needed]))
        exact = {
            name: f"{_KEY}{number}"
            for number, name in enumerate(self._on)
            if loses_values(self._stored.field(name).type)
        }
        fields = [
            T.StructField(TABLE, T.IntegerType()),
            T.StructField(ADDRESS, T.LongType()),
            *columns.fields,
            *(T.StructField(copy, columns[name].dataType) for name, copy in exact.items()),
        ]
        schema = T.StructType(fields)
        return MergeScan(self._on, arrow_schema(schema), exact, keys), schema

    def writes(self) -> tuple[ClauseWrite, ...]:
        """Return the writes of the clauses. Call `changes` first."""
        return tuple(
            ClauseWrite(clause.action, given, columns)
            for clause, (given, columns) in zip(self._clauses, self._givens, strict=True)
        )

    def changes(self, target: DataFrame, scan: MergeScan, targets: Targets) -> DataFrame:
        """Return the position of each row that changes, the number of its clause, and its new values.

        All rows of a fragment are in one task, sorted by address. New rows come last.
        """
        rows = target.hint("merge").alias(_TARGET)  # Spark does not know the number of rows
        source = self._source.withColumn(_HIT, F.lit(True)).alias(_SOURCE)
        condition = F.lit(True)
        for name in self._on:
            key = F.col(format_path([_TARGET, scan.exact.get(name, name)]))
            condition = condition & (key == F.col(format_path([_SOURCE, name])))
        pairs = rows.join(source, condition, self._join).withColumn(ACTION, self._action())
        pairs = pairs.where(F.col(ACTION).isNotNull())
        table, address = F.col(TABLE), F.col(ADDRESS)
        changes = pairs.select(table, address, F.col(ACTION), *self._value_columns(pairs))
        names = changes.columns
        changes = self._with_route(changes, targets)
        fragment = F.shiftrightunsigned(address, _ADDRESS_BITS)
        changes = changes.repartition(table, fragment, F.col(_ROUTE)).select(
            *(F.col(quoted_name(name)) for name in names)
        )
        return changes.sortWithinPartitions(table.asc_nulls_last(), address)

    @property
    def _join(self) -> str:
        return {
            (False, False): "inner",
            (True, False): "right",
            (False, True): "left",
            (True, True): "full",
        }[self.inserts, self.reads_all]

    def _action(self) -> Column:
        numbers = {kind: F.lit(None).cast("int") for kind in RowKind}
        for number, clause in reversed(list(enumerate(self._clauses))):
            applies = F.lit(True) if clause.condition is None else _column(clause.condition)
            numbers[clause.rows] = F.when(applies, F.lit(number)).otherwise(numbers[clause.rows])
        return (
            F.when(F.col(ADDRESS).isNull(), numbers[RowKind.NOT_MATCHED])
            .when(F.col(_HIT).isNull(), numbers[RowKind.NOT_MATCHED_BY_SOURCE])
            .otherwise(numbers[RowKind.MATCHED])
        )

    def _value_columns(self, pairs: DataFrame) -> list[Column]:
        """Return the values, cast to the types of their columns.

        Raises
        ------
        UnsupportedFeatureError
            Arrow has no type for a value.
        """
        plain = pairs.select(*(value.alias(name) for name, _, value, *_ in self._values)).schema
        spark, ansi = pairs.sparkSession, is_ansi(pairs.sparkSession)
        columns, passed = [], []
        for name, column, value, number in self._values:
            given, wanted = plain[name].dataType, wanted_type(self._stored, column)
            assigned = type_with_target_names(spark, column, given, self._stored.field(column).type)
            if wanted is not None:
                # without ANSI, Spark would change values that do not fit
                casts = ansi and number is not None
                assigned = assigned_type(column, assigned, wanted, is_ansi=ansi, casts_others=casts)
            if given.simpleString() != assigned.simpleString():
                value = value.cast(assigned)  # noqa: PLW2901
            passed.append(T.StructField(column, assigned))
            if number is not None:
                value = F.when(F.col(ACTION) == number, value)  # noqa: PLW2901
            columns.append(value.alias(name))
        arrow_schema(T.StructType(passed))
        return columns

    def _with_route(self, changes: DataFrame, targets: Targets) -> DataFrame:
        """Add a number by which Spark shuffles the new rows of a partition together."""
        if targets.schema is None or not self.inserts:
            # new rows stay in their task
            here = F.spark_partition_id() if self.inserts else F.lit(0)
            return changes.withColumn(_ROUTE, F.when(F.col(ADDRESS).isNull(), here).otherwise(0))
        namespace = targets.source.open_namespace()
        fields = namespace.manifest.specs.current.fields
        paths = [targets.schema.path(field_id) for field in fields for field_id in field.source_ids]
        partitioned = {path[0] for path in paths if path is not None}
        routes = F.lit(0).cast("long")
        for number, clause in enumerate(self._clauses):
            if clause.action is not MergeAction.INSERT:
                continue
            given, columns = self._givens[number]
            named = {
                name: F.col(quoted_name(column))
                for name, column in zip(given.names, columns, strict=True)
                if name in partitioned
            }
            changes = changes.withColumns(named)
            changes = changes.withColumn(f"{_ROUTE}{number}", route(changes, targets.source, namespace))
            changes = changes.drop(*named)
            routes = F.when(F.col(ACTION) == number, F.col(f"{_ROUTE}{number}")).otherwise(routes)
        return changes.withColumn(_ROUTE, routes)

    def _check_keys(self) -> None:
        given = self._given_schema
        for name in self._on:
            if name not in given.names:
                raise InvalidInputError(f"the source has no key column {name!r}")
            stored = self._stored.field(name).type
            if not is_comparable(stored):
                raise UnsupportedFeatureError(
                    f"key column {name!r} has type {stored}, which is not supported for keys"
                )
            if is_rounded(stored) or (pa.types.is_nested(stored) and loses_values(stored)):
                raise UnsupportedFeatureError(
                    f"key column {name!r} has type {stored}, but Spark has no type with the same values"
                )
            ours = spark_schema(pa.schema([self._stored.field(name)]))[name].dataType
            theirs = given[name].dataType
            if not are_equal_as_stored(theirs, ours):
                raise InvalidInputError(
                    f"key column {name!r} has type {ours.simpleString()}, but type {theirs.simpleString()} "
                    "in the source; cast it"
                )

    def _given(self, clause: MergeClause) -> tuple[Schema, tuple[str, ...]]:
        """Return the columns that a clause sets, and the names of the query's columns with the values."""
        if clause.action is MergeAction.DELETE:
            return Schema(fields=(), metadata=self._schema.metadata), ()
        if clause.values is None:
            given = Schema(
                fields=_brought(self._schema.fields, self._given_schema, ""), metadata=self._schema.metadata
            )
        else:
            names = {name for name, _ in clause.values}
            fields = tuple(field for field in self._schema.fields if field.name in names)
            given = Schema(fields=fields, metadata=self._schema.metadata)
        if clause.action is MergeAction.INSERT:
            schema_to_write(given.to_arrow(), self._schema)
        return given, tuple(self._value(clause, name) for name in given.names)

    def _value(self, clause: MergeClause, name: str) -> str:
        """Return the query's column with a value; clauses share the columns of the source."""
        if clause.values is None:
            shared = f"{_VALUE}source_{name}"
            if all(known != shared for known, *_ in self._values):
                self._values.append(_Value(shared, name, F.col(format_path([_SOURCE, name])), None))
            return shared
        number = next(at for at, each in enumerate(self._clauses) if each is clause)
        given = dict(clause.values)[name]
        column = f"{_VALUE}{number}_{name}"
        self._values.append(_Value(column, name, _column(given), number))
        return column

    def _is_mentioned(self, name: str) -> bool:
        """Whether an expression may read a column of the target."""
        written = name.replace("`", "``").lower()
        texts = (str(each).lower() for clause in self._clauses for each in clause.expressions)
        return any(written in text or name.lower() in text for text in texts)


class _Value(NamedTuple):
    """Values of a column of the target; ``number`` is that of their clause, or None for all clauses."""

    name: str
    column: str
    expression: Column
    number: int | None


def _column(expression: Expression) -> Column:
    return F.expr(expression) if isinstance(expression, str) else expression


def _brought(fields: Sequence[Field], given: T.StructType, within: str) -> tuple[Field, ...]:
    """Return the columns of a target, and the fields of structs, for which rows have values.

    Raises
    ------
    InvalidInputError
        The rows have a column that the target lacks, or items of lists without all fields.
    """
    if unknown := [name for name in given.names if name not in {field.name for field in fields}]:
        raise InvalidInputError(
            f"the source has columns that do not exist in the target: {within}{unknown[0]}"
        )
    brought = []
    for field in fields:
        if field.name in given.names:
            held = given[field.name].dataType
            if field.is_struct and isinstance(held, T.StructType):
                children = _brought(field.children, held, f"{within}{field.name}.")
                brought.append(field.with_children(children))
                continue
            _check_items(field, held, f"{within}{field.name}")
            brought.append(field)
    return tuple(brought)


def _check_items(field: Field, given: T.DataType, path: str) -> None:
    if not isinstance(given, T.ArrayType) or len(field.children) != 1:
        return
    item, held = field.children[0], given.elementType
    if item.is_struct and isinstance(held, T.StructType):
        if _brought(item.children, held, f"{path}.") != item.children:
            raise InvalidInputError(
                f"the list items of column {path!r} lack some fields of their struct; provide all fields"
            )
    else:
        _check_items(item, held, path)

"""The relations of lance_df in Spark plans, and relations that read less."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.cloudpickle import loads
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lance_df.format.column_path import quoted_name
from lance_df.records import dataclass
from lance_df.spark.catalogs import options_of_read
from lance_df.spark.decimals import without_integers
from lance_df.spark.opened import SourceRef, open_source
from lance_df.spark.options import SourceOptions
from lance_df.spark.pruning.conditions import StoredColumn, stored_column
from lance_df.spark.pruning.nodes import class_of, items, output_of
from lance_df.spark.source import LanceSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lance_df.namespace.kind import Source
    from lance_df.spark.pruning.plans import Plans

_PYTHON_TABLE: Final = "PythonTable"
_REPLACED: Final = frozenset({"version", "tag", "branch", "columns", "filter"})
_TIME: Final = "time("
NOT_READ: Final = (
    "lance_df.spark.prune did not read this column because the query given to it does not use it; prune "
    "the whole query"
)


def is_of_lance(node: Any) -> bool:
    """Whether a relation reads lance_df."""
    table = node.table()
    return class_of(table) == _PYTHON_TABLE and bool(table.name() == LanceSource.name())


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of lance_df in a plan, at one version.

    Attributes
    ----------
    node
        The relation in the JVM.
    given
        The options of the relation.
    schema
        The columns in Spark's types.
    ids
        The ids of its attributes, in order.
    """

    node: Any
    given: Mapping[str, str]
    options: SourceOptions
    source: Source
    schema: StructType
    ids: tuple[int, ...]

    @classmethod
    def of(cls, node: Any, plans: Plans) -> Relation | None:
        """Return the relation of a node, or None if it does not read lance_df."""
        table = node.table()
        if not is_of_lance(node):
            return None
        schema = StructType.fromJson(json.loads(node.schema().json()))
        given = options_of_read(schema, plans.options_of(node))
        pinned = plans.field(table, "ds", "dataSourceInPython", "dataSource")
        made = None if pinned is None else loads(bytes(pinned))
        if made is not None and not isinstance(made, LanceSource):
            return None
        options = SourceOptions.parse(given)
        source = open_source(options) if made is None else made.open(options)
        ids = tuple(number for number, _ in output_of(node))
        return cls(node, given, options, source, schema, ids)

    @property
    def attributes(self) -> Iterator[Any]:
        """The attributes of the relation in the plan."""
        return items(self.node.output())

    @property
    def has_plain_names(self) -> bool:
        """Whether the column names are distinct even if case is ignored."""
        return len({name.lower() for name in self.schema.names}) == len(self.schema.names)

    def columns(self) -> dict[int, StoredColumn]:
        """Return the columns whose conditions can be translated, by the ids of their attributes."""
        decimals, stored = without_integers(self.schema), self.source.arrow_schema
        columns = {}
        for number, field, plain in zip(self.ids, self.schema.fields, decimals.fields, strict=True):
            if len(stored.get_all_field_indices(field.name)) != 1:
                continue
            data_type = stored.field(field.name).type
            column = stored_column(
                field.name, plain.dataType, data_type, is_digits=field.dataType != plain.dataType
            )
            if column is not None:
                columns[number] = column
        return columns

    def names(self, used: frozenset[int]) -> list[str]:
        """Return the names of the columns of some attributes, or the narrowest column if there are none."""
        names = [name for number, name in zip(self.ids, self.schema.names, strict=True) if number in used]
        return names or [self._narrowest()]

    def read(self, spark: SparkSession, names: list[str] | None, filter: str | None) -> DataFrame | None:
        """Return the same columns, but read only some of them, and only rows for which a filter is true.

        Returns None if types or nullability would differ, as they may if the user gave a schema.
        """
        options = {name: value for name, value in self.given.items() if name.lower() not in _REPLACED}
        ref = SourceRef.of(self.source, self.options)
        options["version"] = str(ref.version)
        if ref.branch is not None:
            options["branch"] = ref.branch
        if names is not None:
            # Spark cannot cast the error for a column that is not read to TIME, so these columns are read
            times = [each.name for each in self.schema.fields if _TIME in each.dataType.simpleString()]
            options["columns"] = json.dumps(list(dict.fromkeys([*names, *times])))
        elif self.options.columns is not None:
            options["columns"] = json.dumps(list(self.options.columns))
        filters = [each for each in (self.options.filter, filter) if each is not None]
        if filters:
            options["filter"] = (
                " AND ".join(f"({each}\n)" for each in filters) if len(filters) > 1 else filters[0]
            )
        rows = spark.read.format(LanceSource.name()).options(**options).load()
        types = {field.name: (field.dataType, field.nullable) for field in rows.schema.fields}
        fields = self.schema.fields
        if any(types.get(each.name) not in (None, (each.dataType, each.nullable)) for each in fields):
            return None
        if rows.schema == self.schema:
            return rows
        return rows.select(
            *(
                quoted_name(each.name)
                if each.name in types
                # Spark evaluates this only if the user adds a query over the result
                else F.raise_error(F.lit(NOT_READ)).cast(each.dataType).alias(each.name)
                for each in fields
            )
        )

    def _narrowest(self) -> str:
        widths = {}
        for name in self.schema.names:
            try:
                widths[name] = self.source.arrow_schema.field(name).type.bit_width
            except (KeyError, ValueError):  # no fixed width
                continue
        return min(widths, key=lambda name: widths[name]) if widths else self.schema.names[0]

"""Changes of rows by SQL, of tables and of namespaces."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from .conditions import to_sql
from .model import Model
from .namespace_rows import Append, Delete, Update, _Rows, assignment_sql
from .steps import OPERATIONS, Arguments, Operation, Way
from .table_rows import MergeInsert, TableAppend, TableDelete, TableUpdate, data_text

# a statement opens what it changes by itself, and pylance has none
_WAYS: frozenset[Way] = frozenset({"here", "new", "killed", "pair"})
_ROWS = "incoming"


def _statement(text: str, arguments: Arguments | None = None) -> str:
    """Return the program that runs a statement, which finds the rows of arguments in a table."""
    lines = ["ctx = lance_df.connect(folder)"]
    if arguments is not None:
        lines.append(f"ctx.from_arrow({data_text(arguments)}, {_ROWS!r})")
    return "\n".join([*lines, f"ctx.sql({text!r})"])


def _where(condition: Any) -> str:
    return "" if condition is None else f" WHERE {to_sql(condition)}"


class _Statement(Operation):
    weight = 1.0
    ways = _WAYS

    def ways_for(self, model: Model, arguments: Arguments) -> frozenset[Way]:
        return self.ways


class _SqlDelete(_Statement):
    def source(self, arguments: Arguments) -> str:
        return _statement(f"DELETE FROM data{_where(arguments['where'])}")


class _SqlUpdate(_Statement):
    def source(self, arguments: Arguments) -> str:
        assignment = assignment_sql(arguments["set"])
        return _statement(f"UPDATE data SET {assignment}{_where(arguments['where'])}")


class _SqlInsert(_Statement):
    takes_blobs = False

    def casts(self, arguments: Arguments) -> set[str]:
        return super().casts(arguments) | {name for name, *_ in arguments["columns"]}

    def source(self, arguments: Arguments) -> str:
        names = ", ".join(name for name, *_ in arguments["columns"])
        return _statement(f"INSERT INTO data ({names}) SELECT {names} FROM {_ROWS}", arguments)


class _SqlMerge(_Statement):
    takes_blobs = False
    pair_refusals = ("InvalidInputError",)  # rows are read, and written when the columns are others
    reads_snapshot = True

    def casts(self, arguments: Arguments) -> set[str]:
        return super().casts(arguments) | {name for name, *_ in arguments["columns"]}

    def source(self, arguments: Arguments) -> str:
        names = [name for name, *_ in arguments["columns"]]
        key = arguments["on"]
        clauses = {
            "update": f" WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = s.{name}' for name in names)}",
            "delete": " WHEN MATCHED THEN DELETE",
            None: "",
        }
        text = f"MERGE INTO data AS t USING {_ROWS} AS s ON t.{key} = s.{key}{clauses[arguments['matched']]}"
        if arguments["insert"]:
            values = ", ".join(f"s.{name}" for name in names)
            text += f" WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({values})"
        if arguments["by_source"] is not None:
            where = arguments["by_source"]
            condition = "" if where == "all" else f" AND {to_sql(where)}"
            text += f" WHEN NOT MATCHED BY SOURCE{condition} THEN DELETE"
        return _statement(text, arguments)


def _in_any_order(model: Model) -> Model:
    return model.with_state(dataclasses.replace(model.state, is_ordered=False))


@OPERATIONS.add
class TableSqlDelete(_SqlDelete, TableDelete):
    """Delete rows of a table by SQL."""

    name = "table_sql_delete"


@OPERATIONS.add
class TableSqlUpdate(_SqlUpdate, TableUpdate):
    """Update rows of a table by SQL."""

    name = "table_sql_update"


@OPERATIONS.add
class TableSqlInsert(_SqlInsert, TableAppend):
    """Insert rows into a table by SQL."""

    name = "table_sql_insert"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return _in_any_order(super().apply(model, arguments))


@OPERATIONS.add
class TableSqlMerge(_SqlMerge, MergeInsert):
    """Merge rows into a table by SQL."""

    name = "table_sql_merge"


@OPERATIONS.add
class SqlDelete(_SqlDelete, Delete):
    """Delete rows of a namespace by SQL."""

    name = "sql_delete"


@OPERATIONS.add
class SqlUpdate(_SqlUpdate, Update):
    """Update rows of a namespace by SQL."""

    name = "sql_update"


@OPERATIONS.add
class SqlInsert(_SqlInsert, Append):
    """Insert rows into a namespace by SQL."""

    name = "sql_insert"


@OPERATIONS.add
class SqlMerge(_SqlMerge, _Rows):
    """Merge rows into a namespace by SQL."""

    name = "sql_merge"
    _merge = MergeInsert()

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        return self._merge.generate(rng, model)

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return self._merge.is_valid(model, arguments)

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return self._merge.apply(model, arguments)

"""Changes of the columns of a table."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from .model import Column, Model, State
from .namespace_columns import draw_other_type, with_column_replaced
from .steps import OPERATIONS, Arguments, Operation
from .table_rows import WIDER, TableOperation

_NEW = (("small", "int32"), ("text", "string"), ("real", "double"))


@OPERATIONS.add
class TableAddColumn(TableOperation):
    """Add a column of nulls, or of an expression."""

    name = "table_add_column"
    weight = 0.8

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        if len(model.state.columns) > 9:
            return None
        role, kind = rng.choice(_NEW)
        sources = [each.name for each in model.state.columns if each.type == "int64"]
        legacy = model.settings.file_version == "0.1"
        source = rng.choice(sources) if sources and (legacy or rng.random() < 0.5) else None
        if legacy and source is None:
            return None
        return {"name": f"c{model.next_name}", "role": role, "type": kind, "source": source}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        names = model.state.names
        types = {each.name: each.type for each in model.state.columns}
        source = arguments["source"]
        return arguments["name"] not in names and (source is None or types.get(source) == "int64")

    def source(self, arguments: Arguments) -> str:
        name = arguments["name"]
        if arguments["source"] is not None:
            return f"table.add_columns({{{name!r}: '{arguments['source']} * 2'}})"
        return f"table.add_columns(pa.schema([({name!r}, arrow_type({arguments['type']!r}))]))"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        state, source = model.state, arguments["source"]
        if source is None:
            column = Column(arguments["name"], arguments["role"], arguments["type"])
            rows = tuple((*row, None) for row in state.rows)
        else:
            position = state.position(source)
            role = "small!" if model.settings.file_version == "0.1" else "small"
            column = Column(arguments["name"], role, "int64")
            values = (None if row[position] is None else 2 * row[position] for row in state.rows)
            rows = tuple((*row, value) for row, value in zip(state.rows, values, strict=True))
        changed = State((*state.columns, column), rows, state.is_ordered)
        return model.with_state(changed, next_name=model.next_name + 1)


@OPERATIONS.add
class TableDropColumn(TableOperation):
    """Drop a column."""

    name = "table_drop_column"
    weight = 0.6

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        names = [column.name for column in model.state.columns if column.role != "key"]
        return {"name": rng.choice(names)} if len(names) > 2 else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["name"] in model.state.names and len(model.state.columns) > 1

    def source(self, arguments: Arguments) -> str:
        return f"table.drop_columns([{arguments['name']!r}])"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        state, position = model.state, model.state.position(arguments["name"])
        columns = (*state.columns[:position], *state.columns[position + 1 :])
        rows = tuple((*row[:position], *row[position + 1 :]) for row in state.rows)
        left = tuple(each for each in model.indices if each != arguments["name"])
        return model.with_state(State(columns, rows, state.is_ordered), indices=left)


@OPERATIONS.add
class TableReplaceColumn(TableOperation):
    """Drop a column, and add one of the same name and another type."""

    name = "table_replace_column"
    weight = 0.6
    ways = frozenset({"here", "new", "pair"})  # not killed: it is two commits
    replaces_columns = True
    rivals = (
        *("table_append", "table_append", "merge_insert", "commit_fragments"),
        *("compact_files", "create_scalar_index"),
    )

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        columns = [column for column in model.state.columns if column.role != "key"]
        if model.settings.file_version == "0.1" or not columns or len(model.state.columns) < 3:
            return None  # 0.1 has no NULL
        return draw_other_type(rng, rng.choice(columns), _NEW)

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        types = {each.name: each.type for each in model.state.columns}
        return types.get(arguments["name"], arguments["type"]) != arguments["type"] and len(types) > 1

    def source(self, arguments: Arguments) -> str:
        return f"replace_column(api.dataset, root, {arguments['name']!r}, {arguments['type']!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        left = tuple(each for each in model.indices if each != arguments["name"])
        return model.with_state(with_column_replaced(model.state, arguments), indices=left)

    def excused(self, model: Model, others: Sequence[Operation]) -> tuple[str, ...]:
        # rows may be written with the column in place of all, or another version be restored, between the two
        return (*super().excused(model, others), "AlreadyExistsError", "InvalidInputError")


@OPERATIONS.add
class TableRenameColumn(TableOperation):
    """Give a column another name."""

    name = "table_rename_column"
    weight = 0.6

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"old": rng.choice(model.state.names), "new": f"r{model.next_name}"}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["old"] in model.state.names and arguments["new"] not in model.state.names

    def source(self, arguments: Arguments) -> str:
        return f"table.alter_columns({{'path': {arguments['old']!r}, 'name': {arguments['new']!r}}})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        columns = tuple(
            dataclasses.replace(each, name=arguments["new"]) if each.name == arguments["old"] else each
            for each in model.state.columns
        )
        state = dataclasses.replace(model.state, columns=columns)
        return model.with_state(state, next_name=model.next_name + 1)


@OPERATIONS.add
class TableWidenColumn(TableOperation):
    """Cast a column to a wider type; one that has an index may be refused."""

    name = "table_widen_column"
    weight = 0.5
    refusals = ("UnsupportedFeatureError", "OSError")  # ours, pylance's

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        names = [each.name for each in model.state.columns if each.type in WIDER]
        return {"name": rng.choice(names)} if names else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        # another process may have widened it
        types = {*WIDER, *WIDER.values()}
        return any(each.name == arguments["name"] and each.type in types for each in model.state.columns)

    def source(self, arguments: Arguments) -> str:
        return f"table.alter_columns({{'path': {arguments['name']!r}, 'data_type': pa.int64()}})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        columns = tuple(
            dataclasses.replace(each, type=WIDER.get(each.type, each.type))
            if each.name == arguments["name"]
            else each
            for each in model.state.columns
        )
        return model.with_state(dataclasses.replace(model.state, columns=columns))

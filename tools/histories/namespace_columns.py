"""Changes of the columns and the partition spec of a namespace."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Sequence

from .model import Column, Model, State
from .namespace_rows import have_roles
from .steps import OPERATIONS, Arguments, Operation

_NEW = (("small", "int32"), ("text", "string"), ("real", "double"), ("day", "date32[day]"))
_WIDER = {"int32": "int64", "string": "large_string"}


class _Columns(Operation):
    kind = "namespace"


@OPERATIONS.add
class AddColumn(_Columns):
    """Add a column of nulls, or of an expression."""

    name = "add_column"
    weight = 0.8

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        if len(model.state.columns) > 9:
            return None
        role, kind = rng.choice(_NEW)
        name = f"c{model.next_name}"
        sources = [each.name for each in model.state.columns if each.type in ("int32", "int64")]
        source = rng.choice(sources) if sources and rng.random() < 0.5 else None
        return {"name": name, "role": role, "type": kind, "source": source}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        types = {each.name: each.type for each in model.state.columns}
        source = arguments["source"]
        return arguments["name"] not in types and (source is None or types.get(source) in ("int32", "int64"))

    def source(self, arguments: Arguments) -> str:
        if arguments["source"] is not None:
            return f"ns.add_columns({{{arguments['name']!r}: '{arguments['source']} * 2'}})"
        return f"ns.add_columns(pa.field({arguments['name']!r}, arrow_type({arguments['type']!r})))"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        state = model.state
        if arguments["source"] is None:
            column = Column(arguments["name"], arguments["role"], arguments["type"])
            rows = tuple((*row, None) for row in state.rows)
        else:
            position = state.position(arguments["source"])
            column = Column(arguments["name"], "small", "int64")  # what an expression with a literal has
            rows = tuple((*row, None if row[position] is None else 2 * row[position]) for row in state.rows)
        state = State((*state.columns, column), rows, state.is_ordered)
        return model.with_state(state, next_name=model.next_name + 1)


@OPERATIONS.add
class DropColumn(_Columns):
    """Drop a column; it may be one that partitions are computed from."""

    name = "drop_column"
    weight = 0.6

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        names = [column.name for column in model.state.columns if column.role != "key"]
        if rng.random() < 0.8:
            names = [name for name in names if not any(name in text for text in model.spec)]
        return {"name": rng.choice(names)} if names and len(model.state.columns) > 3 else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["name"] in model.state.names and len(model.state.columns) > 1

    def source(self, arguments: Arguments) -> str:
        return f"ns.drop_columns([{arguments['name']!r}])"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        state, position = model.state, model.state.position(arguments["name"])
        columns = (*state.columns[:position], *state.columns[position + 1 :])
        rows = tuple((*row[:position], *row[position + 1 :]) for row in state.rows)
        # rows of partitions whose source is gone are found by NULL, which the model does not follow
        spec = () if any(_source(text) == arguments["name"] for text in model.spec) else model.spec
        return model.with_state(State(columns, rows, state.is_ordered), spec=spec)


@OPERATIONS.add
class RenameColumn(_Columns):
    """Give a column another name; partition fields follow it."""

    name = "rename_column"
    weight = 0.8

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"old": rng.choice(model.state.names), "new": f"r{model.next_name}"}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["old"] in model.state.names and arguments["new"] not in model.state.names

    def source(self, arguments: Arguments) -> str:
        return f"ns.rename_column({arguments['old']!r}, {arguments['new']!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        old, new = arguments["old"], arguments["new"]
        columns = tuple(
            dataclasses.replace(each, name=new) if each.name == old else each for each in model.state.columns
        )
        spec = tuple(re.sub(rf"\b{old}\b", new, text) for text in model.spec)
        state = dataclasses.replace(model.state, columns=columns)
        return model.with_state(state, spec=spec, next_name=model.next_name + 1)


@OPERATIONS.add
class WidenColumn(_Columns):
    """Give a column a wider type; one that has an index may be refused."""

    name = "widen_column"
    weight = 0.5
    refusals = ("UnsupportedFeatureError",)

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        names = [each.name for each in model.state.columns if each.type in _WIDER]
        return {"name": rng.choice(names)} if names else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        # another process may have widened it
        types = {*_WIDER, *_WIDER.values()}
        return any(each.name == arguments["name"] and each.type in types for each in model.state.columns)

    def source(self, arguments: Arguments) -> str:
        name = arguments["name"]
        return (
            # a handle that is held may be from before the column got its name
            f"found = lance_df.PartitionedNamespace.open(root).schema.field({name!r}).type\n"
            f"wider = {{'int32': pa.int64(), 'string': pa.large_string()}}.get(str(found), found)\n"
            f"ns.alter_columns({{'path': {name!r}, 'data_type': wider}})"
        )

    def apply(self, model: Model, arguments: Arguments) -> Model:
        columns = tuple(
            dataclasses.replace(each, type=_WIDER.get(each.type, each.type))
            if each.name == arguments["name"]
            else each
            for each in model.state.columns
        )
        return model.with_state(dataclasses.replace(model.state, columns=columns))


def draw_other_type(rng: random.Random, column: Column, choices: Sequence[tuple[str, str]]) -> Arguments:
    """Return a column's name, and a role and a type that it has not."""
    role, kind = rng.choice([each for each in choices if each[0] != column.role and each[1] != column.type])
    return {"name": column.name, "role": role, "type": kind}


def with_column_replaced(state: State, arguments: Arguments) -> State:
    """Return a state with a column of nulls at the end in place of one of the same name."""
    position = state.position(arguments["name"])
    column = Column(arguments["name"], arguments["role"], arguments["type"])
    columns = (*state.columns[:position], *state.columns[position + 1 :], column)
    rows = tuple((*row[:position], *row[position + 1 :], None) for row in state.rows)
    return State(columns, rows, state.is_ordered)


@OPERATIONS.add
class ReplaceColumn(_Columns):
    """Drop a column, and add one of the same name and another type."""

    name = "replace_column"
    weight = 0.6
    ways = frozenset({"here", "new", "pair"})  # not killed: it is two commits
    replaces_columns = True
    rivals = ("append", "append", "upsert", "spark_append", "transaction", "compact")

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        columns = [
            each
            for each in model.state.columns
            if each.role != "key" and not any(each.name in text for text in model.spec)
        ]
        if not columns or len(model.state.columns) < 3:
            return None
        return draw_other_type(rng, rng.choice(columns), _NEW)

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        types = {each.name: each.type for each in model.state.columns}
        return types.get(arguments["name"], arguments["type"]) != arguments["type"] and len(types) > 1

    def source(self, arguments: Arguments) -> str:
        given = f"{arguments['name']!r}, {arguments['type']!r}"
        return f"replace_column(lance_df.PartitionedNamespace.open, root, {given})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        spec = () if any(_source(text) == arguments["name"] for text in model.spec) else model.spec
        return model.with_state(with_column_replaced(model.state, arguments), spec=spec)

    def excused(self, model: Model, others: Sequence[Operation]) -> tuple[str, ...]:
        # rows may be written with the column in place of all, or another version be restored, between the two
        return (*super().excused(model, others), "AlreadyExistsError", "InvalidInputError")


def draw_spec(rng: random.Random, state: State, partitions: int) -> tuple[str, ...]:
    """Return random partition fields, most of them a column as it is."""
    choices: list[str] = []
    for column in state.columns:
        if column.role.startswith("part"):
            choices += [column.name] * 6 + [f"truncate({column.name}, {max(2, partitions // 5)})"]
        elif column.role == "key":
            choices.append(f"bucket({column.name}, {max(2, min(partitions, 60))})")
        elif column.role == "text":
            choices += [f"truncate({column.name}, 1)", f"bucket({column.name}, 3)", column.name]
        elif column.role == "day":
            choices += [f"year({column.name})", f"month({column.name})"]
        elif column.role == "small":
            choices.append(column.name)
    rng.shuffle(choices)
    fields: list[str] = []
    for text in choices[: rng.choice([1, 1, 1, 2])]:
        if _source(text) not in map(_source, fields):
            fields.append(text)
    return tuple(fields)


@OPERATIONS.add
class UpdatePartitionSpec(_Columns):
    """Partition new rows in another way."""

    name = "update_partition_spec"
    weight = 0.8

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        spec = draw_spec(rng, model.state, model.settings.partitions)
        if not spec or spec == model.spec:
            return None
        sources = [model.state.columns[model.state.position(_source(text))] for text in spec]
        return {"spec": spec, "columns": [(each.name, each.role, each.type) for each in sources]}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return have_roles(model.state, arguments["columns"])

    def source(self, arguments: Arguments) -> str:
        return f"ns.update_partition_spec({list(arguments['spec'])!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return dataclasses.replace(model, spec=arguments["spec"])


def _source(text: str) -> str:
    """Return the column of a partition field."""
    return text.split("(")[-1].split(",")[0].rstrip(")")

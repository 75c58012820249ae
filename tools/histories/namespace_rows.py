"""Changes of the rows of a partitioned namespace."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from .conditions import Condition, draw_condition, fits, is_of_type, literal, to_sql
from .model import Column, Model, Row, State
from .numbers_text import numbers_text
from .steps import OPERATIONS, Arguments, Operation

_KEY = "key"


def columns_text(columns: Sequence[Column]) -> str:
    """Return columns as Python, as `prelude.rows` takes them."""
    return repr([(column.name, column.role, column.type) for column in columns])


def draw_numbers(rng: random.Random, model: Model) -> list[int]:
    """Return numbers of rows: new ones, or those of rows that there are."""
    count = model.settings.partitions
    fresh = model.next_number
    kind = rng.random()
    if kind < 0.35:
        return list(range(fresh, fresh + rng.choice([1, 1, 2, 5])))
    if kind < 0.55:
        return sorted(rng.sample(range(fresh + 5), min(fresh + 5, rng.randint(1, 20))))
    if kind < 0.75:
        return list(range(fresh, fresh + count + rng.randrange(3)))
    if kind < 0.85:
        return list(range(fresh, fresh + 4 * min(count, 400)))
    return [rng.randrange(fresh + 5) for _ in range(rng.randint(1, 30))]


def after(model: Model, numbers: Sequence[int]) -> int:
    """Return the first number that no row has afterwards."""
    return max(model.next_number, *(number + 1 for number in numbers)) if numbers else model.next_number


def have_roles(state: State, columns: Sequence[Sequence[str]]) -> bool:
    """Return whether there are columns of some names and roles, each a name, a role and a type."""
    roles = {column.name: column.role for column in state.columns}
    return all(roles.get(name) == role for name, role, _ in columns)


class _Rows(Operation):
    kind = "namespace"

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        """Columns that are named must be there, and have the same values, if perhaps a wider type."""
        return have_roles(model.state, arguments.get("columns", ()))


def _data(arguments: Arguments) -> str:
    columns, numbers, salt = arguments["columns"], arguments["numbers"], arguments["salt"]
    return f"rows({columns!r}, {numbers_text(numbers)}, {salt})"


def _all_columns(state: State) -> list[tuple[str, str, str]]:
    return [(column.name, column.role, column.type) for column in state.columns]


def draw_append(rng: random.Random, model: Model) -> Arguments:
    """Return new rows, which may lack a column."""
    columns = _all_columns(model.state)
    if len(columns) > 2 and rng.random() < 0.15:
        columns = sorted(rng.sample(columns, len(columns) - 1))
    return {
        "columns": columns,
        "numbers": draw_numbers(rng, model),
        "salt": rng.choice([0, 0, rng.randrange(50)]),
        "statistics": rng.choice([None, None, None, True, False]),
    }


@OPERATIONS.add
class Append(_Rows):
    """Add rows to few partitions, or to many."""

    name = "append"
    weight = 7.0

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        return draw_append(rng, model)

    def source(self, arguments: Arguments) -> str:
        return f"ns.append({_data(arguments)}, statistics={arguments['statistics']})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        names = [name for name, *_ in arguments["columns"]]
        new = model.state.new_rows(arguments["numbers"], arguments["salt"], names)
        return model.with_state(model.state.plus(new), next_number=after(model, arguments["numbers"]))


@OPERATIONS.add
class Delete(_Rows):
    """Delete the rows for which a condition is true."""

    name = "delete"
    weight = 3.0

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"where": draw_condition(rng, model.state)}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return fits(arguments["where"], model.state)

    def source(self, arguments: Arguments) -> str:
        return f"ns.delete({to_sql(arguments['where'])!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return model.with_state(model.state.without(arguments["where"]))

    def smaller(self, arguments: Arguments) -> Iterator[Arguments]:
        if arguments["where"][0] in ("and", "or"):
            for part in arguments["where"][1:]:
                yield {"where": part}


def draw_assignment(rng: random.Random, state: State) -> tuple[str, Any, str] | None:
    """Return a column, a value or an addend, and which of both it is."""
    columns = state.of_role("part", "small", "text", "day")
    if not columns:
        return None
    column = rng.choice(columns)
    if column.type in ("int32", "int64"):
        return column.name, rng.randint(1, 4), rng.choice(["plus", "value"])
    if column.role.startswith("text"):
        return column.name, rng.choice(["a", "new", "ü"]), "value"
    if column.role.endswith("!"):
        return None
    return column.name, None, "value"


def can_assign(state: State, assignment: tuple[str, Any, str], where: Condition | None) -> bool:
    """Return whether a column can be given a value in the rows for which a condition is true."""
    name, value, _ = assignment
    if where is not None and not fits(where, state):
        return False
    return name in state.names and is_of_type(value, state.columns[state.position(name)].type)


def assigned(state: State, assignment: tuple[str, Any, str], row: Row) -> Row:
    """Return a row after an assignment."""
    name, value, kind = assignment
    position = state.position(name)
    if kind == "plus":
        value = None if row[position] is None else row[position] + value
    return (*row[:position], value, *row[position + 1 :])


def assignment_text(assignment: tuple[str, Any, str]) -> str:
    """Return an assignment as the argument of ``update``."""
    name, value, kind = assignment
    return repr({name: f"{name} + {value}" if kind == "plus" else literal(value)})


def assignment_sql(assignment: tuple[str, Any, str]) -> str:
    """Return an assignment as SQL."""
    name, value, kind = assignment
    return f"{name} = {name} + {value}" if kind == "plus" else f"{name} = {literal(value)}"


@OPERATIONS.add
class Update(_Rows):
    """Give rows another value, which may move them to another partition."""

    name = "update"
    weight = 2.0

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        assignment = draw_assignment(rng, model.state)
        where = draw_condition(rng, model.state) if rng.random() < 0.9 else None
        return None if assignment is None else {"set": assignment, "where": where}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return can_assign(model.state, arguments["set"], arguments["where"])

    def casts(self, arguments: Arguments) -> set[str]:
        return super().casts(arguments) | {arguments["set"][0]}

    def source(self, arguments: Arguments) -> str:
        where = None if arguments["where"] is None else to_sql(arguments["where"])
        return f"ns.update({assignment_text(arguments['set'])}, {where!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        state = model.state
        return model.map_rows(lambda row: assigned(state, arguments["set"], row), arguments["where"])


def draw_upsert(rng: random.Random, model: Model) -> Arguments | None:
    """Return rows of some keys, which may lack columns."""
    keys = model.state.of_role(_KEY)
    if not keys:
        return None
    columns = _all_columns(model.state)
    if len(columns) > 2 and rng.random() < 0.3:
        others = [each for each in columns if each[0] != keys[0].name]
        columns = [(keys[0].name, keys[0].role, keys[0].type), *rng.sample(others, rng.randint(1, 2))]
    numbers = sorted(set(draw_numbers(rng, model)))
    return {
        "columns": columns,
        "numbers": numbers,
        "salt": rng.randrange(50),
        "on": keys[0].name,
    }


def upserted(model: Model, arguments: Arguments) -> Model:
    """Return the model after rows were replaced or changed by their keys, and new ones added."""
    state, salt = model.state, arguments["salt"]
    key = state.position(arguments["on"])
    names = [name for name, *_ in arguments["columns"]]
    given = [position for position, name in enumerate(state.names) if name in names]
    incoming = {row[key]: row for row in state.new_rows(arguments["numbers"], salt, names)}
    is_partial = len(given) < len(state.columns)
    rows: list[Row] = []
    seen: set[Any] = set()
    for row in state.rows:
        new = None if row[key] is None else incoming.get(row[key])
        if new is None:
            rows.append(row)
        elif is_partial:
            rows.append(tuple(new[i] if i in given else old for i, old in enumerate(row)))
        elif row[key] not in seen:
            rows.append(new)
        if new is not None:
            seen.add(row[key])
    rows += [row for value, row in incoming.items() if value not in seen]
    changed = State(state.columns, tuple(rows))
    return model.with_state(changed, next_number=after(model, arguments["numbers"]))


@OPERATIONS.add
class Upsert(_Rows):
    """Replace rows by their keys; rows that lack columns change the others."""

    name = "upsert"
    weight = 2.5

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        return draw_upsert(rng, model)

    def source(self, arguments: Arguments) -> str:
        return f"ns.upsert({_data(arguments)}, {arguments['on']!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return upserted(model, arguments)


@OPERATIONS.add
class OverwritePartitions(_Rows):
    """Replace the partitions that occur in some rows."""

    name = "overwrite_partitions"
    weight = 1.5

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        if not is_by_value(model):
            return None
        numbers = draw_numbers(rng, model)
        return {
            "columns": _all_columns(model.state),
            "numbers": numbers,
            "salt": rng.randrange(50),
        }

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        complete = sorted(model.state.names) == sorted(name for name, *_ in arguments["columns"])
        return complete and is_by_value(model) and super().is_valid(model, arguments)

    def source(self, arguments: Arguments) -> str:
        return f"ns.overwrite_partitions({_data(arguments)})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        new = model.state.new_rows(arguments["numbers"], arguments["salt"])
        left = without_partitions_of(model, new)
        return left.with_state(left.state.plus(new), next_number=after(model, arguments["numbers"]))


def is_by_value(model: Model) -> bool:
    """Return whether the partitions are those of columns as they are."""
    return bool(model.spec) and all(name in model.state.names for name in model.spec)


def without_partitions_of(model: Model, rows: Sequence[Row]) -> Model:
    """Return the model without the partitions that occur in some rows."""
    positions = [model.state.position(name) for name in model.spec]
    replaced = {tuple(row[i] for i in positions) for row in rows}
    left = [row for row in model.state.rows if tuple(row[i] for i in positions) not in replaced]
    return model.with_state(State(model.state.columns, tuple(left)))


@OPERATIONS.add
class AppendOften(Append):
    """Append rows again and again: members get many fragments, and so may ``__manifest``."""

    name = "append_often"
    weight = 1.0
    # not killed: it is several commits, of which any number may then be there
    ways = frozenset({"here", "held", "new"})

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        numbers = draw_numbers(rng, model)[: rng.choice([1, 2, 6, 60])]
        return draw_append(rng, model) | {"numbers": numbers, "times": rng.choice([4, 12, 50])}

    def source(self, arguments: Arguments) -> str:
        return f"for _ in range({arguments['times']}):\n    {super().source(arguments)}"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return super().apply(model, arguments | {"numbers": arguments["numbers"] * arguments["times"]})

    def smaller(self, arguments: Arguments) -> Iterator[Arguments]:
        for times in (2, arguments["times"] // 2):
            if times < arguments["times"]:
                yield arguments | {"times": times}
        yield from super().smaller(arguments)


@OPERATIONS.add
class DeleteAll(_Rows):
    """Delete all rows."""

    name = "delete_all"
    weight = 0.3

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {}

    def source(self, arguments: Arguments) -> str:
        return "ns.delete('true')"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return model.with_state(State(model.state.columns))


@OPERATIONS.add
class Transaction(_Rows):
    """Several changes in one version."""

    name = "transaction"
    weight = 1.5

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        parts: list[tuple[str, Arguments]] = []
        for _ in range(rng.randint(2, 3)):
            name = rng.choice(["append", "delete", "update", "upsert", "drop_column", "rename_column"])
            arguments = OPERATIONS[name].generate(rng, model)
            if arguments is None or not OPERATIONS[name].is_valid(model, arguments):
                continue
            parts.append((name, arguments))
            model = OPERATIONS[name].apply(model, arguments)
        return {"parts": parts} if parts else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        for name, each in arguments["parts"]:
            if not OPERATIONS[name].is_valid(model, each):
                return False
            model = OPERATIONS[name].apply(model, each)
        return bool(arguments["parts"])

    def casts(self, arguments: Arguments) -> set[str]:
        return {column for name, each in arguments["parts"] for column in OPERATIONS[name].casts(each)}

    def source(self, arguments: Arguments) -> str:
        lines = [f"    {OPERATIONS[name].source(each)}" for name, each in arguments["parts"]]
        text = "\n".join(lines).replace("    ns.", "    tx.")
        return f"with ns.transaction() as tx:\n{text}"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        for name, each in arguments["parts"]:
            model = OPERATIONS[name].apply(model, each)
        return model

    def smaller(self, arguments: Arguments) -> Iterator[Arguments]:
        parts = arguments["parts"]
        for number, (name, each) in enumerate(parts):
            if len(parts) > 1:
                yield {"parts": [*parts[:number], *parts[number + 1 :]]}
            for simpler in OPERATIONS[name].smaller(each):
                yield {"parts": [*parts[:number], (name, simpler), *parts[number + 1 :]]}


def new_salt(model: Model) -> int | None:
    """Return a salt with which rows are in partitions that there are not, where that is by numbers."""
    columns = [each for each in model.state.of_role("part") if any(each.name in text for text in model.spec)]
    if not columns:
        return None
    position = model.state.position(columns[0].name)
    highest = max((row[position] or 0 for row in model.state.rows), default=0)
    return 1000 * (1 + highest // int(columns[0].role.removeprefix("part")))


@OPERATIONS.add
class AppendIntoNew(Append):
    """Add rows to partitions that there are not."""

    name = "append_into_new"
    weight = 0.5
    rivals = ("append_into_new", "transaction_into_new")

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        salt = new_salt(model)
        if salt is None:
            return None
        fresh = model.next_number
        numbers = range(fresh, fresh + rng.choice([1, 2, 5, 20]))
        return draw_append(rng, model) | {"numbers": list(numbers), "salt": salt}


@OPERATIONS.add
class TransactionIntoNew(Transaction):
    """Add rows to partitions that there are not, and change others, in one version."""

    name = "transaction_into_new"
    weight = 1.0
    rivals = ("append_into_new", "transaction_into_new")

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        salt = new_salt(model)
        if salt is None:
            return None
        names = ["append_into_new", *rng.sample(["delete", "update", "upsert"], rng.randint(1, 2))]
        rng.shuffle(names)
        parts: list[tuple[str, Arguments]] = []
        for name in names:
            arguments = OPERATIONS[name].generate(rng, model)
            if arguments is None:
                return None
            if "salt" in arguments and (name != "upsert" or rng.random() < 0.5):
                arguments |= {"salt": salt}
            if not OPERATIONS[name].is_valid(model, arguments):
                return None
            parts.append((name, arguments))
            model = OPERATIONS[name].apply(model, arguments)
        return {"parts": parts}

"""Changes of the rows of a table."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from .clean_ups import gone
from .conditions import draw_condition, fits, to_sql
from .model import Column, Model, Row, State
from .namespace_rows import (
    after,
    assigned,
    assignment_text,
    can_assign,
    draw_assignment,
    draw_numbers,
)
from .numbers_text import numbers_text
from .steps import OPERATIONS, Arguments, Operation, Way

ALL_WAYS: frozenset[Way] = frozenset({"here", "held", "new", "killed", "pair", "pylance"})
OURS: frozenset[Way] = ALL_WAYS - {"pylance"}


class TableOperation(Operation):
    """A change of a table, which pylance can make as well."""

    kind = "table"
    ways = ALL_WAYS

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        columns = arguments.get("columns")
        return columns is None or list(map(tuple, columns)) == all_columns(model.state)


# types that columns are widened to
WIDER = {"int32": "int64"}


def all_columns(state: State) -> list[tuple[str, str, str]]:
    """Return the columns as `prelude.rows` takes them."""
    return [(column.name, column.role, column.type) for column in state.columns]


def fit(model: Model, columns: Sequence[Sequence[str]], cast: Collection[str]) -> bool:
    """Return whether rows may have these columns: one that another process has added may be missing.

    Parameters
    ----------
    cast
        Columns that may be narrower, as another process has widened them.
    """
    given = list(map(tuple, columns))
    named = {name for name, *_ in given}
    stored = [tuple(column) for column in all_columns(model.state) if column[0] in named]
    return len(stored) == len(given) and all(
        one == other or (one[0] in cast and one[:2] == other[:2] and WIDER.get(one[2]) == other[2])
        for one, other in zip(given, stored, strict=True)
    )


def data_text(arguments: Arguments) -> str:
    """Return the rows of arguments as Python."""
    numbers = numbers_text(arguments["numbers"])
    return f"rows({arguments['columns']!r}, {numbers}, {arguments['salt']})"


@OPERATIONS.add
class TableAppend(TableOperation):
    """Append rows."""

    name = "table_append"
    weight = 5.0

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        return {
            "columns": all_columns(model.state),
            "numbers": draw_numbers(rng, model),
            "salt": rng.randrange(50),
            "max_rows_per_file": rng.choice([1_000_000, 3, 20, 100]),
            "method": rng.choice(["write_dataset", "insert"]),
            "base": rng.randrange(model.settings.bases)
            if model.settings.bases and rng.random() < 0.6
            else None,
        }

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return fit(model, arguments["columns"], self.casts(arguments))

    def excused(self, model: Model, others: Sequence[Operation]) -> tuple[str, ...]:
        # rows of 0.1 have all columns when they are written; one that is added before the commit is NULL
        lacking = ("InvalidInputError",) if model.settings.file_version == "0.1" else ()
        return (*super().excused(model, others), *lacking)

    def source(self, arguments: Arguments) -> str:
        limit = max(arguments["max_rows_per_file"], len(arguments["numbers"]) // 50 + 1)
        given = f"mode='append', max_rows_per_file={limit}"
        if arguments["base"] is not None:
            given += f", target_bases=['base{arguments['base']}']"
        if arguments["method"] == "insert":
            return f"table.insert({data_text(arguments)}, {given})"
        return f"api.write_dataset({data_text(arguments)}, root, {given})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        names = [name for name, *_ in arguments["columns"]]
        new = model.state.new_rows(arguments["numbers"], arguments["salt"], names)
        return model.with_state(model.state.plus(new), next_number=after(model, arguments["numbers"]))


def emptied(model: Model, arguments: Arguments) -> Model:
    """Return the model before rows are written in place of all there is: columns are theirs, indices go."""
    columns = tuple(Column(*each) for each in arguments["columns"])
    return model.with_state(State(columns, (), is_ordered=True), indices=())


@OPERATIONS.add
class TableOverwrite(TableAppend):
    """Replace all rows."""

    name = "table_overwrite"
    weight = 0.5

    def source(self, arguments: Arguments) -> str:
        return super().source(arguments).replace("mode='append'", "mode='overwrite'")

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return True

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return super().apply(emptied(model, arguments), arguments)


@OPERATIONS.add
class TableDelete(TableOperation):
    """Delete the rows for which a condition is true."""

    name = "table_delete"
    weight = 3.0

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"where": draw_condition(rng, model.state)}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return fits(arguments["where"], model.state)

    def source(self, arguments: Arguments) -> str:
        return f"table.delete({to_sql(arguments['where'])!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return model.with_state(model.state.without(arguments["where"]))

    def smaller(self, arguments: Arguments) -> Iterator[Arguments]:
        if arguments["where"][0] in ("and", "or"):
            for part in arguments["where"][1:]:
                yield {"where": part}


@OPERATIONS.add
class Truncate(TableOperation):
    """Delete all rows."""

    name = "truncate_table"
    weight = 0.3

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"method": rng.choice(["truncate_table()", "delete('true')"])}

    def source(self, arguments: Arguments) -> str:
        return f"table.{arguments['method']}"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return model.with_state(dataclasses.replace(model.state, rows=(), is_ordered=True))


@OPERATIONS.add
class CommitDelete(TableDelete):
    """Delete rows fragment by fragment, and commit that as an operation."""

    name = "commit_delete"
    weight = 1.0

    def excused(self, model: Model, others: Sequence[Operation]) -> tuple[str, ...]:
        return (*super().excused(model, others), *gone(model, others))

    def source(self, arguments: Arguments) -> str:
        return f"commit_rows(api, root, {to_sql(arguments['where'])!r})"


@OPERATIONS.add
class TableUpdate(TableOperation):
    """Give rows another value."""

    name = "table_update"
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
        return f"table.update({assignment_text(arguments['set'])}, where={where!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        state = model.state
        return model.map_rows(lambda row: assigned(state, arguments["set"], row), arguments["where"])


@OPERATIONS.add
class MergeInsert(TableOperation):
    """Merge rows by their keys, with every combination of clauses."""

    name = "merge_insert"
    weight = 2.5
    pair_refusals = ("InvalidInputError",)  # rows are read, and written when the columns are others
    reads_snapshot = True

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        keys = [each for each in model.state.columns if each.role == "key"]
        if not keys:
            return None
        matched = rng.choice(["update", "update", "delete", None])
        insert = rng.random() < 0.7
        by_source = rng.choice([None, None, None, "all", "some"])
        if matched is None and not insert and by_source is None:
            insert = True
        return {
            "columns": all_columns(model.state),
            "numbers": sorted(set(draw_numbers(rng, model))),
            "salt": rng.randrange(50),
            "on": keys[0].name,
            "matched": matched,
            "insert": insert,
            "by_source": draw_condition(rng, model.state) if by_source == "some" else by_source,
        }

    def ways_for(self, model: Model, arguments: Arguments) -> frozenset[Way]:
        # pylance fails at merges that write no rows, depending on how DataFusion plans them
        writes = arguments["insert"] or arguments["matched"] == "update"
        return self.ways if writes else self.ways - {"pylance"}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        keys = (
            [row[model.state.position(arguments["on"])] for row in model.state.rows]
            if (arguments["on"] in model.state.names)
            else [None]
        )
        by_source = arguments["by_source"]
        if isinstance(by_source, tuple) and not fits(by_source, model.state):
            return False
        # several rows of one key are an error of their own
        return fit(model, arguments["columns"], self.casts(arguments)) and None not in keys

    def source(self, arguments: Arguments) -> str:
        clauses = {"update": ".when_matched_update_all()", "delete": ".when_matched_delete()", None: ""}
        text = clauses[arguments["matched"]]
        if arguments["insert"]:
            text += ".when_not_matched_insert_all()"
        if arguments["by_source"] is not None:
            where = arguments["by_source"]
            condition = "" if where == "all" else repr(to_sql(where))
            text += f".when_not_matched_by_source_delete({condition})"
        return f"table.merge_insert({arguments['on']!r}){text}.execute({data_text(arguments)})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        state = model.state
        key = state.position(arguments["on"])
        given = [name for name, *_ in arguments["columns"]]
        missing = [index for index, name in enumerate(state.names) if name not in given]
        incoming = {row[key]: row for row in state.new_rows(arguments["numbers"], arguments["salt"], given)}
        if missing and model.settings.file_version == "0.1":  # files of which store 0 for NULL in numbers
            incoming = {
                value: tuple(0 if index in missing else each for index, each in enumerate(row))
                for value, row in incoming.items()
            }
        where: Any = arguments["by_source"]
        goes = state.matches(where) if isinstance(where, tuple) else [where == "all"] * len(state.rows)
        rows: list[Row] = []
        for row, is_gone in zip(state.rows, goes, strict=True):
            new = incoming.get(row[key])
            if new is None:
                rows += [] if is_gone else [row]
            elif arguments["matched"] != "delete":
                updated = [row[i] if i in missing else value for i, value in enumerate(new)]
                rows.append(row if arguments["matched"] is None else tuple(updated))
        if arguments["insert"]:
            seen = {row[key] for row in state.rows}
            rows += [row for value, row in incoming.items() if value not in seen]
        return model.with_state(
            State(state.columns, tuple(rows)), next_number=after(model, arguments["numbers"])
        )


@OPERATIONS.add
class CommitFragments(TableOperation):
    """Write fragments, and commit them as an operation."""

    name = "commit_fragments"
    weight = 1.0

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {
            "columns": all_columns(model.state),
            "numbers": draw_numbers(rng, model),
            "salt": rng.randrange(50),
        }

    def excused(self, model: Model, others: Sequence[Operation]) -> tuple[str, ...]:
        return (*super().excused(model, others), *gone(model, others))

    def source(self, arguments: Arguments) -> str:
        return f"commit_fragments(api, root, {data_text(arguments)})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        new = model.state.new_rows(arguments["numbers"], arguments["salt"])
        return model.with_state(model.state.plus(new), next_number=after(model, arguments["numbers"]))


@OPERATIONS.add
class CommitUpdate(TableOperation):
    """Write rows anew, delete the old ones fragment by fragment, and commit that as an operation."""

    name = "commit_update"
    takes_blobs = False
    weight = 1.0
    pair_refusals = ("InvalidInputError",)  # rows are read, and written when the columns are others

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        keys = [each for each in model.state.columns if each.role == "key" and each.type == "int64"]
        return {"where": draw_condition(rng, model.state), "key": keys[0].name} if keys else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return fits(arguments["where"], model.state) and arguments["key"] in model.state.names

    def excused(self, model: Model, others: Sequence[Operation]) -> tuple[str, ...]:
        return (*super().excused(model, others), *gone(model, others))

    def source(self, arguments: Arguments) -> str:
        name = arguments["key"]
        return (
            "def new(rows):\n"
            f"    place = rows.schema.get_field_index({name!r})\n"
            f"    values = pa.compute.add(rows[{name!r}], 100000)\n"
            f"    return rows.set_column(place, rows.schema.field(place), values)\n"
            f"commit_rows(api, root, {to_sql(arguments['where'])!r}, new)"
        )

    def apply(self, model: Model, arguments: Arguments) -> Model:
        position = model.state.position(arguments["key"])

        def new(row: Row) -> Row:
            key = row[position]
            return (*row[:position], None if key is None else key + 100000, *row[position + 1 :])

        return model.map_rows(new, arguments["where"])

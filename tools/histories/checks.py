"""What is asked after a step, and what the model answers."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, ClassVar

from .conditions import columns_of, draw_condition, to_sql
from .model import Kind, Model, State
from .steps import Arguments, Check

_OPEN = {
    "namespace": "lance_df.PartitionedNamespace.open(root)",
    "table": "lance_df.dataset(root)",
}
_AT = {
    "namespace": "lance_df.PartitionedNamespace.open(root, version={})",
    "table": "lance_df.dataset(root, version={})",
}


class Question(ABC):
    """A kind of check.

    Attributes
    ----------
    name
        Of the check.
    kinds
        What it can be asked of.
    chance
        How often it is asked.
    here
        Whether it may be asked in the process that goes on.
    """

    name: ClassVar[str]
    kinds: ClassVar[tuple[Kind, ...]] = ("namespace", "table")
    chance: ClassVar[float] = 0.2
    ways: ClassVar[tuple[Any, ...]] = ("new", "new", "here")

    def draw(self, rng: random.Random, model: Model) -> Arguments | None:
        """Return random arguments, or None where it cannot be asked."""
        return {}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        """Return whether it can be asked of another model."""
        where = arguments.get("where")
        return where is None or columns_of(where) <= set(model.state.names)

    @abstractmethod
    def source(self, model: Model, arguments: Arguments) -> str:
        """Return the program, which sets ``result``."""

    @abstractmethod
    def expected(self, model: Model, arguments: Arguments) -> Any:
        """Return what the result has to be; see `prepared`."""

    def prepared(self, result: Any) -> Any:
        """Return a result as it is compared."""
        return result


def in_any_order(result: tuple[list[tuple[str, str]], list[str]]) -> Any:
    """Return columns, and rows sorted."""
    return [tuple(each) for each in result[0]], sorted(result[1])


def as_read(state: State) -> Any:
    """Return what `prelude.canonical` returns, with the rows sorted."""
    return state.fields, state.sorted_texts


class _Rows(Question):
    def prepared(self, result: Any) -> Any:
        return in_any_order(result)


class Rows(_Rows):
    """All rows, with names and types of columns."""

    name = "rows"
    ways = ("here",)
    chance = 0.5

    def source(self, model: Model, arguments: Arguments) -> str:
        return f"result = canonical(everything({_OPEN[model.settings.kind]}))"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return as_read(model.state)


class FilteredRows(_Rows):
    """The rows for which a condition is true."""

    name = "filtered rows"
    chance = 0.5

    def draw(self, rng: random.Random, model: Model) -> Arguments:
        return {"where": draw_condition(rng, model.state)}

    def source(self, model: Model, arguments: Arguments) -> str:
        opened, where = _OPEN[model.settings.kind], to_sql(arguments["where"])
        return f"result = canonical(everything({opened}, filter={where!r}))"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return as_read(model.state.where(arguments["where"]))


class Count(Question):
    """The number of rows, or of those for which a condition is true."""

    name = "count"
    chance = 0.6

    def draw(self, rng: random.Random, model: Model) -> Arguments:
        return {"where": draw_condition(rng, model.state) if rng.random() < 0.6 else None}

    def source(self, model: Model, arguments: Arguments) -> str:
        where = "" if arguments["where"] is None else repr(to_sql(arguments["where"]))
        return f"result = {_OPEN[model.settings.kind]}.count_rows({where})"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return len(model.state.where(arguments["where"]).rows)


class Sql(_Rows):
    """Rows by SQL, in a session or in a plain context."""

    name = "sql"
    chance = 0.5

    def draw(self, rng: random.Random, model: Model) -> Arguments:
        return {
            "where": draw_condition(rng, model.state) if rng.random() < 0.6 else None,
            "context": rng.choice(["connect", "SessionContext", "plain"]),
        }

    def source(self, model: Model, arguments: Arguments) -> str:
        where = "" if arguments["where"] is None else f" WHERE {to_sql(arguments['where'])}"
        opened = {
            "connect": "ctx = lance_df.connect(folder)",
            "SessionContext": "ctx = lance_df.SessionContext()\nlance_df.register(ctx, 'data', root)",
            "plain": "ctx = datafusion.SessionContext()\nlance_df.register(ctx, 'data', root)",
        }[arguments["context"]]
        return f"{opened}\nresult = canonical(ctx.sql({'SELECT * FROM data' + where!r}).to_arrow_table())"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return as_read(model.state.where(arguments["where"]).plain)


class Groups(Question):
    """Counts by the values of a column, in order."""

    name = "groups"
    chance = 0.3

    def draw(self, rng: random.Random, model: Model) -> Arguments | None:
        columns = model.state.of_role("key", "part", "small", "text")
        return {"column": rng.choice(columns).name} if columns else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["column"] in model.state.names

    def source(self, model: Model, arguments: Arguments) -> str:
        name = arguments["column"]
        text = f"SELECT {name}, count(*) FROM data GROUP BY {name} ORDER BY {name} NULLS FIRST"
        return (
            "ctx = lance_df.SessionContext()\nlance_df.register(ctx, 'data', root)\n"
            f"result = canonical(ctx.sql({text!r}).to_arrow_table())[1]"
        )

    def expected(self, model: Model, arguments: Arguments) -> Any:
        position = model.state.position(arguments["column"])
        counts = Counter(row[position] for row in model.state.rows)
        ordered = sorted(counts.items(), key=lambda item: (item[0] is not None, item[0] or _least(item[0])))
        return [repr(item) for item in ordered]


class Ordered(Question):
    """Rows in the order of a statement, in results of many batches."""

    name = "ordered rows"
    chance = 0.35

    def draw(self, rng: random.Random, model: Model) -> Arguments | None:
        names = [each.name for each in model.state.of_role("key", "part", "small", "text", "real", "day")]
        if not names:
            return None
        rng.shuffle(names)
        keys = [
            (name, rng.choice(["ASC", "DESC"]), rng.choice(["FIRST", "LAST"]))
            for name in names[: rng.randint(1, 4)]
        ]
        return {
            "keys": keys,
            "grouped": rng.random() < 0.4,
            "where": draw_condition(rng, model.state) if rng.random() < 0.3 else None,
            "limit": rng.choice([None, None, 1, 20, 500]),
            "partitions": rng.choice([1, 4, 9]),
        }

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        names = {name for name, *_ in arguments["keys"]}
        return super().is_valid(model, arguments) and names <= set(model.state.names)

    def source(self, model: Model, arguments: Arguments) -> str:
        names = ", ".join(name for name, *_ in arguments["keys"])
        order = ", ".join(f"{name} {way} NULLS {nulls}" for name, way, nulls in arguments["keys"])
        where = "" if arguments["where"] is None else f" WHERE {to_sql(arguments['where'])}"
        group = f" GROUP BY {names}" if arguments["grouped"] else ""
        count = ", count(*)" if arguments["grouped"] else ""
        limit = "" if arguments["limit"] is None else f" LIMIT {arguments['limit']}"
        text = f"SELECT {names}{count} FROM data{where}{group} ORDER BY {order}{limit}"
        return (
            f"ctx = in_small_batches(root, {arguments['partitions']})\nresult = in_batches(ctx.sql({text!r}))"
        )

    def expected(self, model: Model, arguments: Arguments) -> Any:
        state = model.state.where(arguments["where"])
        positions = [state.position(name) for name, *_ in arguments["keys"]]
        rows = [tuple(row[i] for i in positions) for row in state.rows]
        if arguments["grouped"]:
            # each NaN may be an object of its own
            counts = Counter(tuple("nan" if each != each else each for each in row) for row in rows)
            rows = [
                (*(float("nan") if each == "nan" else each for each in row), count)
                for row, count in counts.items()
            ]
        for place, (_, way, nulls) in reversed(list(enumerate(arguments["keys"]))):
            given = [row for row in rows if row[place] is not None]
            given.sort(key=lambda row: _sortable(row[place]), reverse=way == "DESC")
            missing = [row for row in rows if row[place] is None]
            rows = [*missing, *given] if nulls == "FIRST" else [*given, *missing]
        return [repr(row) for row in rows[: arguments["limit"]]]


def _sortable(value: Any) -> Any:
    """Return what orders a value, NaN after all numbers."""
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value


def _least(value: Any) -> Any:
    return "" if isinstance(value, str) else 0


class Members(Question):
    """The rows of all members, read by pylance alone."""

    name = "members by pylance"
    kinds = ("namespace",)
    chance = 0.03
    ways = ("new",)

    def source(self, model: Model, arguments: Arguments) -> str:
        return "result = all_member_rows(root)"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return model.state.sorted_texts


class Verified(Question):
    """What ``verify`` finds."""

    name = "verify"
    kinds = ("namespace",)
    chance = 0.2
    ways = ("new",)

    def source(self, model: Model, arguments: Arguments) -> str:
        allowed: tuple[str, ...] = ("unpublished",) if model.strays or model.was_killed else ()
        allowed += ("orphan",) if model.was_killed else ()
        return f"result = problems(root, {allowed!r})"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return []


class OldVersion(_Rows):
    """An older version."""

    name = "old version"
    chance = 0.35

    def draw(self, rng: random.Random, model: Model) -> Arguments | None:
        return {"version": rng.choice(list(model.versions))} if model.versions else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["version"] in model.versions

    def source(self, model: Model, arguments: Arguments) -> str:
        opened = _AT[model.settings.kind].format(arguments["version"])
        return f"result = canonical(everything({opened}))"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return as_read(model.versions[arguments["version"]])


class OpenHandle(_Rows):
    """An object that was opened some steps ago."""

    name = "open handle"
    chance = 0.6
    ways = ("here",)

    def draw(self, rng: random.Random, model: Model) -> Arguments | None:
        return {"name": rng.choice(list(model.handles))} if model.handles else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["name"] in model.handles

    def source(self, model: Model, arguments: Arguments) -> str:
        return f"result = canonical(everything(handles[{arguments['name']!r}]))"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return as_read(model.handles[arguments["name"]])


class ByPylance(Question):
    """A table as pylance reads it, in order."""

    name = "rows by pylance"
    kinds = ("table",)
    chance = 0.6
    ways = ("new",)

    def source(self, model: Model, arguments: Arguments) -> str:
        return "theirs = lance.dataset(root)\ntheirs.validate()\nresult = canonical(everything(theirs))[1]"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return model.state.texts


class Validated(Question):
    """What ``validate`` says."""

    name = "validate"
    kinds = ("table",)
    chance = 0.4

    def source(self, model: Model, arguments: Arguments) -> str:
        return "result = lance_df.dataset(root).validate()"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return None


class Take(Question):
    """Some rows by their positions."""

    name = "take"
    kinds = ("table",)
    chance = 0.4

    def draw(self, rng: random.Random, model: Model) -> Arguments | None:
        count = len(model.state.rows)
        return {"positions": [rng.randrange(count) for _ in range(rng.randint(1, 12))]} if count else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return all(position < len(model.state.rows) for position in arguments["positions"])

    def source(self, model: Model, arguments: Arguments) -> str:
        return f"result = canonical(lance_df.dataset(root).take({arguments['positions']!r}))[1]"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return [model.state.plain.texts[position] for position in arguments["positions"]]


class Blobs(Question):
    """Blobs of some rows by their positions, as bytes at once and as files."""

    name = "blobs"
    kinds = ("table",)
    chance = 0.6

    def draw(self, rng: random.Random, model: Model) -> Arguments | None:
        count, columns = len(model.state.rows), model.state.of_role("blob")
        if not count or not columns:
            return None
        positions = sorted({rng.randrange(count) for _ in range(rng.randint(1, 12))})
        return {"column": rng.choice(columns).name, "positions": positions}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        names = [column.name for column in model.state.of_role("blob")]
        return arguments["column"] in names and arguments["positions"][-1] < len(model.state.rows)

    def source(self, model: Model, arguments: Arguments) -> str:
        return f"result = blobs(root, {arguments['column']!r}, {arguments['positions']!r})"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        place = model.state.position(arguments["column"])
        values = [model.state.rows[position][place] for position in arguments["positions"]]
        return values, values, [value for value in values if value is not None]


class Tag(_Rows):
    """The version that a tag names, or the newest one of a branch."""

    name = "tag"
    kinds = ("table",)
    chance = 0.3

    def draw(self, rng: random.Random, model: Model) -> Arguments | None:
        return {"tag": rng.choice(list(model.tags))} if model.tags else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["tag"] in model.tags

    def source(self, model: Model, arguments: Arguments) -> str:
        tag = arguments["tag"]
        version = (tag.removeprefix("branch "), None) if tag.startswith("branch ") else tag
        return f"result = canonical(everything(lance_df.dataset(root).checkout_version({version!r})))"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return as_read(model.tags[arguments["tag"]])


class Cloned(_Rows):
    """A clone of an older version."""

    name = "clone"
    kinds = ("table",)
    chance = 0.3

    def draw(self, rng: random.Random, model: Model) -> Arguments | None:
        return {"name": rng.choice(list(model.clones))} if model.clones else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["name"] in model.clones

    def source(self, model: Model, arguments: Arguments) -> str:
        where = f"os.path.join(folder, {arguments['name']!r})"
        return f"result = canonical(everything(lance_df.dataset({where})))"

    def expected(self, model: Model, arguments: Arguments) -> Any:
        return as_read(model.clones[arguments["name"]])


QUESTIONS: dict[str, Question] = {
    each.name: each
    for each in (
        *(Rows(), FilteredRows(), Count(), Sql(), Groups(), Ordered(), Members(), Verified(), OldVersion()),
        *(OpenHandle(), ByPylance(), Validated(), Take(), Blobs(), Tag(), Cloned()),
    )
}


def draw_checks(rng: random.Random, model: Model) -> tuple[Check, ...]:
    """Return random checks of a model."""
    checks = []
    for question in QUESTIONS.values():
        if model.settings.kind in question.kinds and rng.random() < question.chance:
            arguments = question.draw(rng, model)
            if arguments is not None:
                checks.append(Check(question.name, arguments, rng.choice(question.ways)))
    return tuple(checks)


def read_all(model: Model) -> str:
    """Return the program that reads the version, what `History` compares, and all rows."""
    opened = _OPEN[model.settings.kind]
    others = "0, []"
    if model.settings.kind == "table":
        others = "len(opened.get_fragments()), unknown_in_bases(folder, root)"
    return f"opened = {opened}\nresult = opened.version, {others}, canonical(everything(opened))"

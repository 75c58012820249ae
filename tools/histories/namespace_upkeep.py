"""What keeps a namespace in shape, what other programs do to it, and objects that stay open."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any, ClassVar

from .clean_ups import clean_up_of_pair, clean_up_text, cleaned_up, draw_clean_up
from .model import Model, State
from .namespace_rows import (
    Append,
    columns_text,
    draw_numbers,
    have_roles,
    is_by_value,
    without_partitions_of,
)
from .numbers_text import numbers_text
from .steps import OPERATIONS, Arguments, Operation, Way


class _Upkeep(Operation):
    """A change after which the rows are the same."""

    kind = "namespace"

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        return {}

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return model


@OPERATIONS.add
class Compact(_Upkeep):
    """Join small fragments of members."""

    name = "compact"
    weight = 1.5

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {
            "target_rows_per_fragment": rng.choice([None, None, 3, 50, 1000]),
            "materialize_deletions_threshold": rng.choice([None, None, 0.0]),
        }

    def source(self, arguments: Arguments) -> str:
        given = ", ".join(f"{name}={value}" for name, value in arguments.items() if value is not None)
        return f"ns.compact({given})"


@OPERATIONS.add
class CleanUp(_Upkeep):
    """Remove old versions."""

    name = "cleanup_old_versions"
    weight = 0.9
    removes_versions = True

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return draw_clean_up(rng)

    def for_pair(self, arguments: Arguments, *, is_single: bool) -> Arguments:
        return clean_up_of_pair(arguments, is_single=is_single)

    def source(self, arguments: Arguments) -> str:
        given = clean_up_text(arguments)
        if arguments["is_shared"]:
            return f"ns.cleanup_old_versions(error_if_tagged_old_versions=False, {given})"
        return f"result = clean_up(folder, ns, os.path.join(root, '__manifest'), {given})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return model.without_versions()

    def seen(self, model: Model, arguments: Arguments, result: Any, way: Way) -> Model:
        return cleaned_up(model, arguments, result)

    def broken_off(self, model: Model) -> Model:
        return model.without_versions()


@OPERATIONS.add
class RepairAndCleanUp(_Upkeep):
    """Repair, and remove whatever is not needed: nothing of what processes left that died is there then."""

    name = "repair_and_clean_up"
    weight = 0.4
    ways = frozenset({"here", "new", "killed"})
    mends = True

    def source(self, arguments: Arguments) -> str:
        return "result = repair_and_clean_up(folder, root)"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        # versions of members that nobody reads stay until the member changes
        strays = model.strays or model.was_killed
        return dataclasses.replace(model.without_versions(), was_killed=False, strays=strays)

    def broken_off(self, model: Model) -> Model:
        return model.without_versions()


@OPERATIONS.add
class Settle(_Upkeep):
    """Change all members, which undoes versions of them that nobody reads."""

    name = "settle"
    weight = 0.3
    ways = frozenset({"here", "held", "new"})  # not killed: it is two commits
    mends = True

    def source(self, arguments: Arguments) -> str:
        return "ns.add_columns(pa.field('settled', pa.int8()))\nns.drop_columns(['settled'])"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return dataclasses.replace(model, strays=False)


@OPERATIONS.add
class Repartition(_Upkeep):
    """Move rows to the partitions of the newest spec."""

    name = "repartition"
    weight = 0.8

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"step_bytes": rng.choice([None, 1, 5000])}

    def source(self, arguments: Arguments) -> str:
        given = "" if arguments["step_bytes"] is None else f"step_bytes={arguments['step_bytes']}"
        return f"ns.repartition({given})"


@OPERATIONS.add
class Repair(_Upkeep):
    """Repair a namespace that is whole."""

    name = "repair"
    weight = 0.3
    ways = frozenset({"here", "new", "killed"})

    def source(self, arguments: Arguments) -> str:
        return "lance_df.PartitionedNamespace.repair(root)"


class _SparkWrite(_Upkeep):
    """Commit the rows of several tasks, as Spark's driver does; a run that was made changes nothing."""

    ways = frozenset({"here", "new", "killed", "pair"})
    program = "Spark"
    takes_blobs = False
    overwrite: ClassVar[str | None] = None

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        if model.runs and rng.random() < 0.3:
            run_id = rng.choice(model.runs)
        else:
            run_id = f"run-{rng.randrange(10**6)}"
        return {
            "columns": [(each.name, each.role, each.type) for each in model.state.columns],
            "tasks": [draw_numbers(rng, model) for _ in range(rng.choice([1, 2, 3]))],
            "run": run_id,
            "aborted": rng.choice([0, 0, 0, 1]),
        }

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return have_roles(model.state, arguments["columns"])

    def source(self, arguments: Arguments) -> str:
        tasks = ", ".join(
            f"rows({arguments['columns']!r}, {numbers_text(numbers)})" for numbers in arguments["tasks"]
        )
        given = f"overwrite={self.overwrite!r}, aborted={arguments['aborted']}"
        return f"spark_write(root, [{tasks}], {arguments['run']!r}, {given})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        if arguments["run"] in model.runs:
            return model
        model = self.before(model, arguments)
        for numbers in arguments["tasks"]:
            part = {"columns": arguments["columns"], "numbers": numbers, "salt": 0}
            model = Append().apply(model, part)
        return dataclasses.replace(model, runs=(*model.runs, arguments["run"]))

    def before(self, model: Model, arguments: Arguments) -> Model:
        """Return the model without the rows that go."""
        return model


@OPERATIONS.add
class SparkAppend(_SparkWrite):
    """Append rows."""

    name = "spark_append"
    weight = 1.5


@OPERATIONS.add
class SparkOverwrite(_SparkWrite):
    """Replace all rows."""

    name = "spark_overwrite"
    weight = 0.4
    overwrite = "static"

    def before(self, model: Model, arguments: Arguments) -> Model:
        return model.with_state(State(model.state.columns))


@OPERATIONS.add
class SparkOverwritePartitions(_SparkWrite):
    """Replace the partitions that occur in the rows."""

    name = "spark_overwrite_partitions"
    weight = 0.6
    overwrite = "dynamic"

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        return super().generate(rng, model) if is_by_value(model) else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        complete = sorted(model.state.names) == sorted(name for name, *_ in arguments["columns"])
        return complete and is_by_value(model) and super().is_valid(model, arguments)

    def before(self, model: Model, arguments: Arguments) -> Model:
        numbers = [number for task in arguments["tasks"] for number in task]
        return without_partitions_of(model, model.state.new_rows(numbers, 0))


@OPERATIONS.add
class SparkCompact(_Upkeep):
    """Compact in tasks."""

    name = "spark_compact"
    program = "Spark"
    weight = 0.5
    ways = frozenset({"here", "new", "killed", "pair"})

    def source(self, arguments: Arguments) -> str:
        return "in_tasks(lambda spark: lance_df.spark.compact(spark, root))"


@OPERATIONS.add
class SparkRepartition(_Upkeep):
    """Move rows to the partitions of the newest spec in tasks."""

    name = "spark_repartition"
    program = "Spark"
    weight = 0.4
    ways = frozenset({"here", "new", "killed", "pair"})

    def source(self, arguments: Arguments) -> str:
        return "in_tasks(lambda spark: lance_df.spark.repartition(spark, root))"


@OPERATIONS.add
class DirectoryTable(_Upkeep):
    """Make a table beside the members, in the same ``__manifest``."""

    name = "directory_table"
    program = "DirectoryNamespace"
    weight = 0.6
    ways = frozenset({"new", "here", "pair", "killed"})

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"number": rng.randrange(10**6)}

    def source(self, arguments: Arguments) -> str:
        return f"directory_table('lance_df', root, {arguments['number']})"


@OPERATIONS.add
class RepairedDirectory(DirectoryTable):
    """Make a table with pylance, which drops columns of ``__manifest`` that it does not know; repair them."""

    name = "repaired_directory"
    program = "DirectoryNamespace of pylance"
    weight = 0.4
    ways = frozenset({"new"})

    def source(self, arguments: Arguments) -> str:
        made = f"directory_table('lance', root, {arguments['number']})"
        return f"{made}\nlance_df.PartitionedNamespace.repair(root)"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        # the version between the two has rows, but not the columns to read them by
        return dataclasses.replace(model, strays=True)


@OPERATIONS.add
class Damage(_Upkeep):
    """Lose members from ``__manifest``, append rows or not, and repair it; so once or several times."""

    name = "damage_and_repair"
    program = "pylance in a namespace"
    weight = 1.5
    ways = frozenset({"new"})

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        columns = [(each.name, each.role, each.type) for each in model.state.columns]
        losses = [
            {
                "what": rng.choice(["fragment", "rows"]),
                "number": rng.randrange(1000),
                "numbers": rng.choice([[], draw_numbers(rng, model)]),
            }
            for _ in range(rng.choice([1, 1, 2, 3]))
        ]
        return {"columns": columns, "losses": losses}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return all(name in model.state.names for name, *_ in arguments["columns"])

    def source(self, arguments: Arguments) -> str:
        lines = []
        for loss in arguments["losses"]:
            lines.append(f"lose_{loss['what']}(root, {loss['number']})")
            if loss["numbers"]:
                data = f"rows({arguments['columns']!r}, {numbers_text(loss['numbers'])})"
                lines.append(f"lance_df.PartitionedNamespace.open(root).append({data})")
        return "\n".join([*lines, "repair_once(root)"])

    def apply(self, model: Model, arguments: Arguments) -> Model:
        for loss in arguments["losses"]:
            part = {"columns": arguments["columns"], "numbers": loss["numbers"], "salt": 0}
            model = Append().apply(model, part)
        return model

    def smaller(self, arguments: Arguments) -> Iterator[Arguments]:
        losses = arguments["losses"]
        for place in range(len(losses) if len(losses) > 1 else 0):
            yield arguments | {"losses": losses[:place] + losses[place + 1 :]}


@OPERATIONS.add
class StrayAppend(_Upkeep):
    """Append to a member with pylance: nobody sees these rows until they are published."""

    name = "stray_append"
    program = "pylance in a namespace"
    takes_blobs = False
    weight = 0.6
    ways = frozenset({"new"})

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        return {"member": rng.randrange(1000)} if model.state.rows else None

    def source(self, arguments: Arguments) -> str:
        return f"append_to_member(root, {arguments['member']})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return dataclasses.replace(model, strays=True)


@OPERATIONS.add
class Hold(_Upkeep):
    """Open the namespace in the process that goes on, and keep the object."""

    name = "hold"
    weight = 0.7
    ways = frozenset({"here"})

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"name": f"h{model.next_name}", "read": rng.random() < 0.5}

    def source(self, arguments: Arguments) -> str:
        read = f"\nhandles[{arguments['name']!r}].to_table()" if arguments["read"] else ""
        return f"handles[{arguments['name']!r}] = lance_df.PartitionedNamespace.open(root){read}"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        handles = model.handles | {arguments["name"]: model.state}
        return dataclasses.replace(model, handles=handles, next_name=model.next_name + 1)


def created(model: Model) -> str:
    """Return the program that makes the namespace."""
    return (
        f"held = lance_df.PartitionedNamespace.create(root, schema({columns_text(model.state.columns)}), "
        f"{list(model.spec)!r})"
    )

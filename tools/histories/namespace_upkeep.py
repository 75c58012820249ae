"""What keeps a namespace in shape, what other programs do to it, and objects that stay open."""

from __future__ import annotations

import dataclasses
import random

from .model import Model
from .namespace_rows import Append, columns_text, draw_numbers
from .numbers_text import numbers_text
from .steps import OPERATIONS, Arguments, Operation


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
    weight = 0.8
    # while another process writes, files that no version refers to yet must stay
    ways = frozenset({"here", "held", "new", "killed"})

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"retain_versions": rng.choice([1, 2, 5]), "delete_unverified": rng.random() < 0.5}

    def source(self, arguments: Arguments) -> str:
        return (
            f"ns.cleanup_old_versions(retain_versions={arguments['retain_versions']}, "
            f"delete_unverified={arguments['delete_unverified']}, error_if_tagged_old_versions=False)"
        )

    def apply(self, model: Model, arguments: Arguments) -> Model:
        # which versions are left is not modelled; neither they nor objects open at them are asked again
        return dataclasses.replace(model, versions={}, handles={})


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


@OPERATIONS.add
class SparkAppend(_Upkeep):
    """Commit the rows of several tasks, as Spark's driver does; a run that was made changes nothing."""

    name = "spark_append"
    weight = 1.5
    ways = frozenset({"here", "new", "killed", "pair"})

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        if model.runs and rng.random() < 0.3:
            run_id = rng.choice(model.runs)
        else:
            run_id = f"run-{rng.randrange(10**6)}"
        return {
            "columns": [(each.name, each.role, each.type) for each in model.state.columns],
            "tasks": [draw_numbers(rng, model) for _ in range(rng.choice([1, 2, 3]))],
            "run": run_id,
        }

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return all(name in model.state.names for name, *_ in arguments["columns"])

    def source(self, arguments: Arguments) -> str:
        tasks = ", ".join(
            f"rows({arguments['columns']!r}, {numbers_text(numbers)})" for numbers in arguments["tasks"]
        )
        return f"spark_append(root, [{tasks}], {arguments['run']!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        if arguments["run"] in model.runs:
            return model
        names = [name for name, *_ in arguments["columns"]]
        for numbers in arguments["tasks"]:
            part = {"columns": arguments["columns"], "numbers": numbers, "salt": 0}
            model = Append().apply(model, part | {"names": names})
        return dataclasses.replace(model, runs=(*model.runs, arguments["run"]))


@OPERATIONS.add
class SparkCompact(_Upkeep):
    """Compact in tasks."""

    name = "spark_compact"
    weight = 0.5
    ways = frozenset({"here", "new", "killed", "pair"})

    def source(self, arguments: Arguments) -> str:
        return "in_tasks(lambda spark: lance_df.spark.compact(spark, root))"


@OPERATIONS.add
class SparkRepartition(_Upkeep):
    """Move rows to the partitions of the newest spec in tasks."""

    name = "spark_repartition"
    weight = 0.4
    ways = frozenset({"here", "new", "killed", "pair"})

    def source(self, arguments: Arguments) -> str:
        return "in_tasks(lambda spark: lance_df.spark.repartition(spark, root))"


@OPERATIONS.add
class DirectoryTable(_Upkeep):
    """Make a table beside the members, in the same ``__manifest``."""

    name = "directory_table"
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
    weight = 0.4
    ways = frozenset({"new"})

    def source(self, arguments: Arguments) -> str:
        made = f"directory_table('lance', root, {arguments['number']})"
        return f"{made}\nlance_df.PartitionedNamespace.repair(root)"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        # the version between the two has rows, but not the columns to read them by
        return dataclasses.replace(model, strays=True)


@OPERATIONS.add
class StrayAppend(_Upkeep):
    """Append to a member with pylance: nobody sees these rows until they are published."""

    name = "stray_append"
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

"""What keeps a table in shape: compaction, clean-up, versions, tags, branches, clones and indices."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from .clean_ups import clean_up_of_pair, clean_up_text, cleaned_up, draw_clean_up, gone
from .model import Model
from .namespace_rows import columns_text, draw_numbers
from .numbers_text import numbers_text
from .steps import OPERATIONS, Arguments, Operation, Way
from .table_rows import ALL_WAYS, OURS, TableAppend, TableOperation, all_columns, emptied


class _TableUpkeep(TableOperation):
    """A change after which the rows are the same."""

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        return {}

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return model


@OPERATIONS.add
class CompactFiles(_TableUpkeep):
    """Join small fragments."""

    name = "compact_files"
    weight = 1.8

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {
            "target_rows_per_fragment": rng.choice([None, 5, 60, 1000]),
            "materialize_deletions_threshold": rng.choice([None, 0.0]),
        }

    def source(self, arguments: Arguments) -> str:
        given = ", ".join(f"{name}={value}" for name, value in arguments.items() if value is not None)
        return f"table.optimize.compact_files({given})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        # new fragments have the highest ids, so that they come last, as those of pylance do
        return model.with_state(dataclasses.replace(model.state, is_ordered=False))


@OPERATIONS.add
class CleanUpTable(_TableUpkeep):
    """Remove old versions."""

    name = "table_cleanup"
    weight = 1.0
    mends = True
    removes_versions = True
    rivals = ("tag_version", "branch_version", "restore", "table_cleanup")

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return draw_clean_up(rng)

    def for_pair(self, arguments: Arguments, *, is_single: bool) -> Arguments:
        return clean_up_of_pair(arguments, is_single=is_single)

    def source(self, arguments: Arguments) -> str:
        given = clean_up_text(arguments)
        # others may make versions meanwhile, and pylance has rules of its own
        plain = f"table.cleanup_old_versions(error_if_tagged_old_versions=False, {given})"
        if arguments["is_shared"]:
            return plain
        checked = f"result = clean_up(folder, table, root, {given})"
        return f"if api is lance:\n    {plain}\nelse:\n    {checked}"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return model.without_versions()

    def seen(self, model: Model, arguments: Arguments, result: Any, way: Way) -> Model:
        return cleaned_up(model, arguments, result)

    def broken_off(self, model: Model) -> Model:
        return model.without_versions()


@OPERATIONS.add
class Restore(TableOperation):
    """Make an older version the newest."""

    name = "restore"
    weight = 0.8
    rivals = ("table_cleanup",)

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        return {"version": rng.choice(list(model.versions))} if model.versions else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["version"] in model.versions

    def source(self, arguments: Arguments) -> str:
        return f"api.dataset(root, version={arguments['version']}).restore()"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        # indices and runs are those of the version, which the model does not know
        return model.with_state(model.versions[arguments["version"]], indices=(), runs=())

    def excused(self, model: Model, others: Sequence[Operation]) -> tuple[str, ...]:
        removed = gone(model, others)
        # a clean-up removes data files before the manifest: a version that lacks some is refused
        return (*super().excused(model, others), *removed, *(("CorruptDataError",) if removed else ()))


class _NamesVersion(_TableUpkeep):
    """Give a known version a name, which it keeps although others clean up."""

    ways = ALL_WAYS - {"held"}
    rivals = ("table_cleanup",)

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        # what commits remove by themselves is not known
        if not model.versions or model.cleans_up:
            return None
        return {"name": f"{self.name}{model.next_name}", "version": rng.choice(list(model.versions))}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        names = {name.removeprefix("branch ") for name in model.tags}
        return arguments["version"] in model.versions and arguments["name"] not in names

    def broken_off(self, model: Model) -> Model:
        # the name may be there
        return dataclasses.replace(model, next_name=model.next_name + 1)

    def excused(self, model: Model, others: Sequence[Operation]) -> tuple[str, ...]:
        return (*super().excused(model, others), *gone(model, others))


@OPERATIONS.add
class TagVersion(_NamesVersion):
    """Give an older version a tag."""

    name = "tag_version"
    weight = 0.6

    def source(self, arguments: Arguments) -> str:
        return f"table.tags.create({arguments['name']!r}, {arguments['version']})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        tags = model.tags | {arguments["name"]: model.versions[arguments["version"]]}
        return dataclasses.replace(model, tags=tags, next_name=model.next_name + 1)


@OPERATIONS.add
class BranchVersion(_NamesVersion):
    """Make a branch of an older version and append to it."""

    name = "branch_version"
    weight = 0.4

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        arguments = super().generate(rng, model)
        if arguments is None:
            return None
        columns = all_columns(model.versions[arguments["version"]])
        return arguments | {"columns": columns, "numbers": draw_numbers(rng, model), "salt": 0}

    def source(self, arguments: Arguments) -> str:
        return (
            f"branch = table.create_branch({arguments['name']!r}, {arguments['version']})\n"
            f"data = rows({arguments['columns']!r}, {numbers_text(arguments['numbers'])})\n"
            "branch.insert(data, mode='append')"
        )

    def apply(self, model: Model, arguments: Arguments) -> Model:
        state = model.versions[arguments["version"]]
        state = state.plus(state.new_rows(arguments["numbers"], 0))
        tags = model.tags | {f"branch {arguments['name']}": state}
        return dataclasses.replace(model, tags=tags, next_name=model.next_name + 1)


@OPERATIONS.add
class CreateTag(_TableUpkeep):
    """Give the newest version a tag."""

    name = "create_tag"
    weight = 0.6
    ways = frozenset({"here", "new", "pylance"})

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"tag": f"t{model.next_name}"}

    def source(self, arguments: Arguments) -> str:
        return f"table.tags.create({arguments['tag']!r}, table.version)"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        tags = model.tags | {arguments["tag"]: model.state}
        return dataclasses.replace(model, tags=tags, next_name=model.next_name + 1)


@OPERATIONS.add
class DeleteTag(_TableUpkeep):
    """Remove a tag."""

    name = "delete_tag"
    weight = 0.2
    ways = frozenset({"here", "new", "pylance"})

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        tags = [name for name in model.tags if not name.startswith("branch ")]
        return {"tag": rng.choice(tags)} if tags else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["tag"] in model.tags

    def source(self, arguments: Arguments) -> str:
        return f"table.tags.delete({arguments['tag']!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        tags = {name: state for name, state in model.tags.items() if name != arguments["tag"]}
        return dataclasses.replace(model, tags=tags)


@OPERATIONS.add
class Branch(_TableUpkeep):
    """Make a branch and change it: the main line stays as it is."""

    name = "branch"
    weight = 0.5
    ways = frozenset({"here", "new", "pylance"})

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {
            "name": f"b{model.next_name}",
            "columns": all_columns(model.state),
            "numbers": draw_numbers(rng, model),
            "salt": 0,
        }

    def source(self, arguments: Arguments) -> str:
        return (
            f"branch = table.create_branch({arguments['name']!r})\n"
            f"data = rows({arguments['columns']!r}, {numbers_text(arguments['numbers'])})\n"
            "branch.insert(data, mode='append')"
        )

    def apply(self, model: Model, arguments: Arguments) -> Model:
        new = model.state.new_rows(arguments["numbers"], 0)
        state = model.state.plus(new)
        return dataclasses.replace(
            model,
            tags=model.tags | {f"branch {arguments['name']}": state},
            next_name=model.next_name + 1,
        )


@OPERATIONS.add
class Clone(_TableUpkeep):
    """Make a clone and go on with it in place of the table."""

    name = "clone"
    weight = 0.4
    ways = frozenset({"here", "new", "pylance"})

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        method = rng.choice(["shallow_clone", "deep_clone"])
        return {"method": method, "name": f"{method}{model.next_name}"}

    def ways_for(self, model: Model, arguments: Arguments) -> frozenset[Way]:
        # pylance looks for all files of a base in a folder ``data``, also where it is no root of a table
        is_refused = arguments["method"] == "deep_clone" and model.settings.bases > 1
        return self.ways - {"pylance"} if is_refused else self.ways

    def source(self, arguments: Arguments) -> str:
        return f"table.{arguments['method']}(os.path.join(folder, {arguments['name']!r}), table.version)"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        clones = model.clones | {arguments["name"]: model.state}
        return dataclasses.replace(model, clones=clones, next_name=model.next_name + 1)


@OPERATIONS.add
class CreateIndex(_TableUpkeep):
    """Build an index of a column, in place of one that is there."""

    name = "create_scalar_index"
    weight = 1.2

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        columns = model.state.of_role("key", "part", "small", "text", "day")
        if not columns:
            return None
        kind = rng.choice(["BTREE", "BITMAP", "ZONEMAP"])
        column = rng.choice(columns)
        return {"column": column.name, "role": column.role, "kind": kind}

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        roles = {column.name: column.role for column in model.state.columns}
        return roles.get(arguments["column"]) == arguments["role"]

    def source(self, arguments: Arguments) -> str:
        return f"table.create_scalar_index({arguments['column']!r}, {arguments['kind']!r}, replace=True)"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        left = tuple(each for each in model.indices if each != arguments["column"])
        return dataclasses.replace(model, indices=(*left, arguments["column"]))


@OPERATIONS.add
class OptimizeIndices(_TableUpkeep):
    """Let indices cover rows that are new."""

    name = "optimize_indices"
    weight = 0.6

    def source(self, arguments: Arguments) -> str:
        return "table.optimize.optimize_indices()"


@OPERATIONS.add
class DropIndex(_TableUpkeep):
    """Remove an index."""

    name = "drop_index"
    weight = 0.6

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        return {"column": rng.choice(model.indices)} if model.indices else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["column"] in model.indices

    def source(self, arguments: Arguments) -> str:
        return f"table.drop_index({arguments['column'] + '_idx'!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        left = tuple(each for each in model.indices if each != arguments["column"])
        return dataclasses.replace(model, indices=left)


@OPERATIONS.add
class AutoCleanup(_TableUpkeep):
    """Remove old versions at every so many commits from now on, or at none."""

    name = "auto_cleanup"
    weight = 0.35
    ways = frozenset({"here", "new", "killed"})

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {
            "interval": rng.choice([0, 1, 2, 3]),
            "seconds": rng.choice([0, 0, 3600]),
            "is_on": not model.cleans_up or rng.random() < 0.3,
        }

    def source(self, arguments: Arguments) -> str:
        if not arguments["is_on"]:
            return "table.optimize.disable_auto_cleanup()"
        given = {"interval": arguments["interval"], "older_than_seconds": arguments["seconds"]}
        return f"table.optimize.enable_auto_cleanup({given})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        removes = arguments["is_on"] and arguments["seconds"] == 0
        if removes or model.cleans_up:
            model = model.without_versions()
        return dataclasses.replace(model, cleans_up=removes)

    def broken_off(self, model: Model) -> Model:
        # the kill may have come after the change, and rows do not tell
        return dataclasses.replace(model.without_versions(), cleans_up=True)


class _SparkTable(TableAppend):
    """Commit what tasks of Spark have written; a run that was made changes nothing."""

    ways = OURS - {"held"}
    program = "Spark"
    takes_blobs = False
    overwrites: ClassVar[bool]

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        repeated = rng.choice(model.runs) if model.runs and rng.random() < 0.3 else None
        return {
            "columns": all_columns(model.state),
            "numbers": draw_numbers(rng, model),
            "salt": 0,
            "tasks": rng.choice([1, 2, 3]),
            "aborted": rng.choice([0, 0, 0, 1]),
            "run": repeated or f"run-{rng.randrange(10**6)}",
        }

    def source(self, arguments: Arguments) -> str:
        size = -(-len(arguments["numbers"]) // arguments["tasks"])
        tasks = ", ".join(
            f"rows({arguments['columns']!r}, {numbers_text(arguments['numbers'][start : start + size])})"
            for start in range(0, len(arguments["numbers"]), size)
        )
        overwrite = ", overwrite='static'" if self.overwrites else ""
        return (
            f"spark_write(root, [{tasks}], {arguments['run']!r}{overwrite}, aborted={arguments['aborted']})"
        )

    def apply(self, model: Model, arguments: Arguments) -> Model:
        if arguments["run"] in model.runs:
            return model
        if self.overwrites:
            model = emptied(model, arguments)
        model = super().apply(model, arguments)
        return dataclasses.replace(model, runs=(*model.runs, arguments["run"]))


@OPERATIONS.add
class SparkTableAppend(_SparkTable):
    """Append what tasks of Spark have written."""

    name = "spark_table_append"
    weight = 0.8
    overwrites = False


@OPERATIONS.add
class SparkTableOverwrite(_SparkTable):
    """Replace all rows by what tasks of Spark have written."""

    name = "spark_table_overwrite"
    weight = 0.4
    overwrites = True

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        # Spark has names of its own for what lists hold, and these replace the table's
        return None if model.state.of_role("items") else super().generate(rng, model)

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return not any(role.startswith("items") for _, role, _ in arguments["columns"])


@OPERATIONS.add
class HoldTable(_TableUpkeep):
    """Open the table in the process that goes on, and keep the object."""

    name = "table_hold"
    weight = 0.7
    ways = frozenset({"here"})

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"name": f"h{model.next_name}", "read": rng.random() < 0.5}

    def source(self, arguments: Arguments) -> str:
        read = f"\nhandles[{arguments['name']!r}].to_table()" if arguments["read"] else ""
        return f"handles[{arguments['name']!r}] = lance_df.dataset(root){read}"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        handles = model.handles | {arguments["name"]: model.state}
        return dataclasses.replace(model, handles=handles, next_name=model.next_name + 1)

    def smaller(self, arguments: Arguments) -> Iterator[Arguments]:
        if arguments["read"]:
            yield arguments | {"read": False}


def created(model: Model) -> str:
    """Return the program that makes the table."""
    settings = model.settings
    bases = ", ".join(
        f"lance_df.DatasetBasePath(os.path.join(folder, 'base{number}'), 'base{number}', {number % 2 == 0})"
        for number in range(settings.bases)
    )
    given = f"initial_bases=[{bases}], " if bases else ""
    folders = "".join(f"os.mkdir(os.path.join(folder, 'base{number}'))\n" for number in range(settings.bases))
    return (
        f"{folders}held = api.write_dataset(schema({columns_text(model.state.columns)}).empty_table(), root, "
        f"{given}data_storage_version={settings.file_version!r}, "
        f"enable_stable_row_ids={settings.stable_row_ids})"
    )

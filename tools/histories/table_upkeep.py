"""What keeps a table in shape: compaction, clean-up, versions, tags, branches, clones and indices."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

from .model import Model
from .namespace_rows import columns_text, draw_numbers
from .numbers_text import numbers_text
from .steps import OPERATIONS, Arguments
from .table_rows import ALL_WAYS, OURS, TableAppend, TableOperation, all_columns


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
    weight = 0.7
    ways = ALL_WAYS - {"pair"}

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        return {"retain_versions": rng.choice([1, 2, 5]), "delete_unverified": rng.random() < 0.5}

    def source(self, arguments: Arguments) -> str:
        return (
            f"table.cleanup_old_versions(retain_versions={arguments['retain_versions']}, "
            f"delete_unverified={arguments['delete_unverified']}, error_if_tagged_old_versions=False)"
        )

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return dataclasses.replace(model, versions={}, handles={})


@OPERATIONS.add
class Restore(TableOperation):
    """Make an older version the newest."""

    name = "restore"
    weight = 0.8

    def generate(self, rng: random.Random, model: Model) -> Arguments | None:
        return {"version": rng.choice(list(model.versions))} if model.versions else None

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["version"] in model.versions

    def source(self, arguments: Arguments) -> str:
        return f"api.dataset(root, version={arguments['version']}).restore()"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        return model.with_state(model.versions[arguments["version"]])


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
        return {"method": rng.choice(["shallow_clone", "deep_clone"]), "name": f"clone{model.next_name}"}

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
        return (
            {"column": rng.choice(columns).name, "kind": rng.choice(["BTREE", "BITMAP"])} if columns else None
        )

    def is_valid(self, model: Model, arguments: Arguments) -> bool:
        return arguments["column"] in model.state.names

    def source(self, arguments: Arguments) -> str:
        kind = f"'ZONEMAP' if api is lance_df else {arguments['kind']!r}"
        return f"table.create_scalar_index({arguments['column']!r}, {kind}, replace=True)"


@OPERATIONS.add
class OptimizeIndices(_TableUpkeep):
    """Let indices cover rows that are new."""

    name = "optimize_indices"
    weight = 0.6

    def source(self, arguments: Arguments) -> str:
        return "table.optimize.optimize_indices()"


@OPERATIONS.add
class AutoCleanup(_TableUpkeep):
    """Remove old versions at every second one from now on."""

    name = "auto_cleanup"
    weight = 0.2
    ways = frozenset({"here", "new"})

    def source(self, arguments: Arguments) -> str:
        return "table.optimize.enable_auto_cleanup({'interval': 2, 'older_than_seconds': 3600})"


@OPERATIONS.add
class SparkTableAppend(TableAppend):
    """Append what tasks of Spark have written; a run that was made changes nothing."""

    name = "spark_table_append"
    weight = 0.8
    ways = OURS - {"held"}

    def generate(self, rng: random.Random, model: Model) -> Arguments:
        repeated = rng.choice(model.runs) if model.runs and rng.random() < 0.3 else None
        return {
            "columns": all_columns(model.state),
            "numbers": draw_numbers(rng, model),
            "salt": 0,
            "run": repeated or f"run-{rng.randrange(10**6)}",
        }

    def source(self, arguments: Arguments) -> str:
        data = f"rows({arguments['columns']!r}, {numbers_text(arguments['numbers'])})"
        return f"spark_append(root, [{data}], {arguments['run']!r})"

    def apply(self, model: Model, arguments: Arguments) -> Model:
        if arguments["run"] in model.runs:
            return model
        model = super().apply(model, arguments)
        return dataclasses.replace(model, runs=(*model.runs, arguments["run"]))


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
    return (
        f"held = api.write_dataset(schema({columns_text(model.state.columns)}).empty_table(), root, "
        f"data_storage_version={settings.file_version!r}, "
        f"enable_stable_row_ids={settings.stable_row_ids})"
    )

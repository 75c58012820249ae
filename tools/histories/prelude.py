"""What the steps of a history call. Programs that reproduce a failure begin with this text."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import random
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datafusion
import lance
import pyarrow as pa

import lance_df

ITEMS = "list<item: int32>"
_REALS = (None, 0.0, 1.5, -2.25, float("nan"), float("inf"), 1e300)
_TEXTS = (None, "", "a", "ab", "ü", "zz", "Ω", "b" * 40)

_INSTEAD = {"part": 0, "smal": 7, "text": "none", "real": 0.5, "day!": dt.date(2020, 2, 29)}


def value(role: str, number: int, salt: int) -> Any:
    """Return the value that a column of a role has in the row of a number."""
    if role.endswith("!"):
        found = value(role[:-1], number, salt)
        # files of 0.1 have no NULL, and take an empty text for one
        return _INSTEAD[role[:4]] if found in (None, "") else found
    mixed = number * 7 + salt * 5
    if role == "key":
        return number
    if role.startswith("part"):
        count = int(role[4:])
        # each thousand of the salt is for as many values that there are not before
        return None if number % 97 == 96 else (number + salt % 1000) % count + salt // 1000 * count
    if role == "small":
        return None if mixed % 13 == 5 else mixed % 9
    if role == "text":
        return _TEXTS[mixed % len(_TEXTS)]
    if role == "real":
        return _REALS[mixed % len(_REALS)]
    if role == "day":
        return None if mixed % 53 == 9 else dt.date(2023, 1, 1) + dt.timedelta(days=mixed % 800)
    if role == "blob":
        return None if mixed % 11 == 7 else bytes([mixed % 251]) * (0, 3, 30, 100)[mixed % 4]
    if role == "items":
        return None if mixed % 11 == 7 else list(range(mixed % 4))
    raise ValueError(f"role {role!r} is unknown")


def arrow_type(name: str) -> pa.DataType:
    """Return an Arrow type by its name."""
    return pa.list_(pa.int32()) if name == ITEMS else pa.type_for_alias(name)


def schema(columns: list[tuple[str, str, str]]) -> pa.Schema:
    """Return the schema of columns, each a name, a role and a type."""
    fields = []
    for name, role, kind in columns:
        if role == "blob":  # in the data file, in files of several, and in files of their own
            field = lance_df.blob_field(
                name,
                inline_size_threshold=10,
                dedicated_size_threshold=40,
                pack_file_size_threshold=70,
            )
            fields.append(field)
        else:
            fields.append(pa.field(name, arrow_type(kind)))
    return pa.schema(fields)


def rows(columns: list[tuple[str, str, str]], numbers: list[int], salt: int = 0) -> pa.Table:
    """Return one row for each number."""
    arrays: list[Any] = []
    for _, role, kind in columns:
        values = [value(role, number, salt) for number in numbers]
        arrays.append(lance_df.blob_array(values) if role == "blob" else pa.array(values, arrow_type(kind)))
    return pa.table(arrays, schema(columns))


def everything(data: Any, **options: Any) -> pa.Table:
    """Return rows of a table or a namespace, with the bytes of blobs."""
    if any(isinstance(each.type, (pa.StructType, pa.ExtensionType)) for each in data.schema):
        options["blob_handling"] = "all_binary"
    return data.to_table(**options)


def canonical(table: pa.Table) -> tuple[list[tuple[str, str]], list[str]]:
    """Return names and types of columns, and the rows as texts, in their order.

    Columns that say where blobs are, and have not their bytes, are left out.
    """
    table = table.select([each.name for each in table.schema if not pa.types.is_struct(each.type)])
    columns = [column.to_pylist() for column in table.columns]
    fields = [(field.name, str(field.type)) for field in table.schema]
    return fields, [repr(row) for row in zip(*columns, strict=True)]


def blobs(root: str, column: str, positions: list[int]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return blobs of some rows: as bytes, as files, and those that are not NULL by pylance."""
    table = lance_df.dataset(root)
    at_once = [data for _, data in table.read_blobs(column, indices=positions)]
    files = [None if file is None else file.readall() for file in table.take_blobs(column, indices=positions)]
    theirs: Any = lance.dataset(root)
    read = [file for file in theirs.take_blobs(column, indices=positions) if file is not None]
    return at_once, files, [file.readall() for file in read]


def published(root: str) -> dict[tuple[str, int], str]:
    """Return folder and version of each member that ``__manifest`` publishes, with its id; by pylance."""
    manifest = lance.dataset(os.path.join(root, "__manifest")).to_table().to_pylist()
    return {
        (row["location"], row["read_version"]): row["object_id"]
        for row in manifest
        if row["object_type"] == "table" and row["read_version"] is not None
    }


def members_by_pylance(
    root: str, known: set[tuple[str, int]] | None = None, again: int = 0
) -> tuple[dict[str, int], dict[tuple[str, int], list[str] | None]]:
    """Return sizes, and the rows of all members that ``__manifest`` publishes, read by pylance alone.

    Parameters
    ----------
    known
        Members whose rows are known, by their folder and version: these are None.
    again
        How many of these to read all the same.
    """
    members = published(root)
    old = [each for each in members if known is not None and each in known]
    skipped = set(random.Random(len(old)).sample(old, max(0, len(old) - again)))
    found: dict[tuple[str, int], list[str] | None] = {}
    manifest: Any = lance.dataset(os.path.join(root, "__manifest"))
    sizes = {"members": len(members), "fragments of __manifest": len(manifest.get_fragments())}
    sizes["fragments of a member"] = 0
    for location, version in members:
        if (location, version) in skipped:
            found[location, version] = None
            continue
        member: Any = lance.dataset(os.path.join(root, location), version=version)
        member.validate()
        found[location, version] = canonical(everything(member))[1]
        fragments = len(member.get_fragments())
        sizes["fragments of a member"] = max(sizes["fragments of a member"], fragments)
    return sizes, found


def all_member_rows(root: str) -> list[str]:
    """Return the rows of all members, sorted; see `members_by_pylance`."""
    return sorted(row for rows in members_by_pylance(root)[1].values() for row in rows or ())


def problems(root: str, kinds: tuple[str, ...] = ()) -> list[str]:
    """Return what ``verify(deep=True)`` reports, but for problems of some kinds."""
    report = lance_df.PartitionedNamespace.open(root).verify(deep=True)
    return [str(each) for each in report.problems if each.severity != "info" and each.kind not in kinds]


def commit_fragments(api: Any, root: str, table: pa.Table) -> None:
    """Write fragments, and commit them as an append."""
    from importlib import import_module

    fragment = import_module(f"{api.__name__}.fragment")
    version = api.dataset(root).version
    written = fragment.write_fragments(table, root, schema=table.schema)
    api.LanceDataset.commit(root, api.LanceOperation.Append(written), read_version=version)


def commit_rows(api: Any, root: str, where: str, new: Callable[[pa.Table], pa.Table] | None = None) -> None:
    """Delete rows fragment by fragment, or give them new values in new fragments, and commit that at once."""
    from importlib import import_module

    table = api.dataset(root)
    changed = table.to_table(filter=where)
    left, gone = [], []
    for fragment in table.get_fragments():
        metadata = fragment.delete(where)
        if metadata is None:
            gone.append(fragment.fragment_id)
        elif metadata.to_json() != fragment.metadata.to_json():
            left.append(metadata)
    if new is None:
        operation = api.LanceOperation.Delete(left, gone, where)
    else:
        written = []
        if changed.num_rows:
            module = import_module(f"{api.__name__}.fragment")
            written = module.write_fragments(new(changed), root, schema=table.schema, max_rows_per_file=50)
        operation = api.LanceOperation.Update(gone, left, written, [], update_mode="rewrite_rows")
    api.LanceDataset.commit(root, operation, read_version=table.version)


def referenced_names(folder: str) -> set[str]:
    """Return the names of all files that a version of some table below a folder refers to.

    Those of data files and deletion files have random parts; of indices they are the names of folders.
    """
    from lance_df.storage import open_location
    from lance_df.table.metadata.manifest_io import read_manifest

    found: set[str] = set()
    for path in Path(folder).rglob("_versions/*.manifest"):
        file = read_manifest(open_location(str(path)).open())
        manifest = file.manifest
        found.add(manifest.transaction_file)
        for fragment in manifest.fragments:
            found.update(each.path for each in fragment.files)
            if fragment.deletion_file is not None:
                found.add(fragment.deletion_file.name(fragment.id))
        found.update(str(index.uuid) for index in file.read_indices())
    return found


def leftovers(folder: str, roots: list[str]) -> list[str]:
    """Return the files below the roots of some tables that no version of any table in a folder refers to."""
    names = referenced_names(folder)
    found: list[Path] = []
    for root in map(Path, roots):
        for below in ("data", "_deletions", "_indices", "_transactions"):
            # the blobs of a data file are in a folder of its name
            found += [
                each
                for each in root.glob(f"{below}/*")
                if names.isdisjoint((each.name, f"{each.name}.lance"))
            ]
        found += root.glob("_versions/.tmp*")
    return sorted(str(each.relative_to(folder)) for each in found)


def restores_under_way(root: str) -> set[int]:
    """Return the versions that restores name which made none: they were killed, or go on."""
    from lance_df.format.operations import Restore
    from lance_df.format.transaction import Transaction

    found, known = set(), referenced_names(root)
    for path in Path(root).glob("_transactions/*.txn"):
        if path.name not in known:
            operation = Transaction.parse(path.read_bytes(), source=path.name).operation
            if isinstance(operation, Restore):
                found.add(operation.version)
    return found


def unknown_in_bases(folder: str, root: str) -> list[str]:
    """Return the files in base paths that no version has named, of all versions that were there before."""
    bases = [each for each in Path(folder).glob("base*") if each.is_dir()]
    if not bases:
        return []
    record = Path(folder, "known_names")
    known = referenced_names(root)
    if record.exists():
        known |= set(record.read_text().splitlines())
    files = {
        f"{each.parent.name}.lance" if each.suffix == ".blob" else each.name: each
        for base in bases
        for each in base.rglob("*")
        if each.is_file()
    }
    record.write_text("\n".join(known | files.keys()))
    return sorted(str(files[name].relative_to(folder)) for name in files.keys() - known)


def clean_up(folder: str, target: Any, root: str, **conditions: Any) -> list[int]:
    """Remove old versions; check which are left, and that there is no file that none of them refers to.

    Parameters
    ----------
    target
        A table of this package, or a namespace.
    root
        Of the table, or of ``__manifest``.

    Returns
    -------
    The versions that are left.
    """
    theirs: Any = lance.dataset(root)
    before = [each["version"] for each in theirs.versions()]
    named = {each["version"] for each in theirs.tags.list().values() if each["branch"] is None}
    named |= {
        each["parent_version"] for each in theirs.branches.list().values() if each["parent_branch"] is None
    }
    if not conditions.get("delete_unverified"):
        named |= restores_under_way(root)
    first = before[-(conditions.get("retain_versions") or 1) :][0]
    roots = [root]
    for name in theirs.branches.list() if conditions.get("delete_unverified") else ():
        branch = lance_df.dataset(root).checkout_version((name, None))
        branch.cleanup_old_versions(error_if_tagged_old_versions=False, **conditions)
        roots.append(branch.uri)
    expected = [each for each in before if each >= min(first, target.version) or each in named]
    target.cleanup_old_versions(error_if_tagged_old_versions=False, **conditions)
    after = [each["version"] for each in lance.dataset(root).versions()]
    assert after == expected, f"of versions {before} {after} are left, expected {expected}"
    if conditions.get("delete_unverified"):
        if root.endswith("__manifest"):
            roots += [os.path.join(root, "..", location) for location, _ in published(root[:-11])]
        left = leftovers(folder, roots)
        assert not left, f"files that nothing refers to: {left[:9]}"
    return after


def repair_and_clean_up(folder: str, root: str) -> list[int]:
    """Repair a namespace, remove all that is not needed, and check that only folders are left that are."""
    manifest = os.path.join(root, "__manifest")
    # a clean-up that was killed may have removed files of versions that are still there
    lance_df.PartitionedNamespace.repair(root)
    clean_up(folder, lance_df.PartitionedNamespace.open(root), manifest, older_than=dt.timedelta(0))
    lance_df.PartitionedNamespace.repair(root, remove_orphans=True, older_than=dt.timedelta(0))
    ns = lance_df.PartitionedNamespace.open(root)
    left = clean_up(folder, ns, manifest, older_than=dt.timedelta(0), delete_unverified=True)
    rows = [row for each in left for row in lance.dataset(manifest, version=each).to_table().to_pylist()]
    named = {str(row["location"]).split("/")[0] for row in rows} | {"__manifest"}
    # repairs bring back what is of partitions, not tables beside them
    others = [each for each in os.listdir(root) if each not in named and "_other" not in each]
    assert not others, f"folders that nothing refers to: {others}"
    return left


def lose_fragment(root: str, number: int) -> None:
    """Publish a version of ``__manifest`` without one of its fragments, past the package."""
    manifest: Any = lance.dataset(os.path.join(root, "__manifest"))
    ids = [fragment.fragment_id for fragment in manifest.get_fragments()]
    if ids:
        operation = lance.LanceOperation.Update(removed_fragment_ids=[ids[number % len(ids)]])
        lance.LanceDataset.commit(manifest.uri, operation, read_version=manifest.version)


def lose_rows(root: str, number: int) -> None:
    """Delete some members' rows of ``__manifest``, past the package."""
    members = sorted(published(root).values())
    lost = [name for place, name in enumerate(members) if (place + number) % 3 == 0]
    texts = ", ".join(f"'{name}'" for name in lost)
    if lost:
        lance.dataset(os.path.join(root, "__manifest")).delete(f"object_id IN ({texts})")


def replace_column(open_latest: Callable[[str], Any], root: str, name: str, kind: str) -> None:
    """Drop a column, and add one of the same name and another type; that once more after a conflict."""
    from lance_df.errors import ConflictError

    open_latest(root).drop_columns([name])
    for left in range(9, -1, -1):
        try:
            open_latest(root).add_columns(pa.schema([(name, arrow_type(kind))]))
        except ConflictError:
            if not left:
                raise
        else:
            return


def repair_once(root: str) -> None:
    """Repair, and check that a dry run tells the same, and that nothing is left to be done."""
    tried = lance_df.PartitionedNamespace.repair(root, dry_run=True)
    done = lance_df.PartitionedNamespace.repair(root)
    assert done.actions == tried.actions, f"{tried} {done}"
    again = lance_df.PartitionedNamespace.repair(root)
    assert not again.actions, str(again)


def in_small_batches(root: str, partitions: int = 4) -> Any:
    """Return a session whose results have many batches."""
    config = datafusion.SessionConfig().with_batch_size(7).with_target_partitions(partitions)
    ctx = lance_df.SessionContext(config)
    lance_df.register(ctx, "data", root)
    return ctx


def in_batches(frame: Any) -> list[str]:
    """Return the rows of a frame as they come, batch by batch."""
    found: list[str] = []
    for batch in frame.collect():
        found += canonical(pa.Table.from_batches([batch]))[1]
    return found


def append_to_member(root: str, number: int) -> None:
    """Append two rows of a member to it with pylance, past the namespace."""
    manifest = lance.dataset(os.path.join(root, "__manifest")).to_table().to_pylist()
    members = sorted(row["object_id"] for row in manifest if row["object_type"] == "table")
    chosen = members[number % len(members)]
    location = next(row["location"] for row in manifest if row["object_id"] == chosen)
    member = lance.dataset(os.path.join(root, location))
    lance.write_dataset(member.to_table(limit=2), member.uri, mode="append")


def directory_table(api: str, root: str, number: int) -> None:
    """Make a namespace with a table beside the members."""
    rows = pa.table({"a": [number]})
    if api == "lance_df":
        directory = lance_df.DirectoryNamespace(root)
        directory.create_namespace([f"other{number}"])
        directory.create_table([f"other{number}", "t"], rows)
        return
    import lance_namespace
    from lance.namespace import DirectoryNamespace

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    make: Any = DirectoryNamespace
    theirs = make(root=root, manifest_enabled="true", dir_listing_enabled="true")
    theirs.create_namespace(lance_namespace.CreateNamespaceRequest(id=[f"other{number}"]))
    request = lance_namespace.CreateTableRequest(id=[f"other{number}", "t"])
    theirs.create_table(request, sink.getvalue().to_pybytes())


def spark_write(
    root: str,
    tasks: list[pa.Table],
    run_id: str,
    *,
    overwrite: str | None = None,
    aborted: int = 0,
) -> None:
    """Write what tasks of Spark would, and commit it as Spark's driver does.

    Parameters
    ----------
    overwrite
        ``"static"`` or ``"dynamic"``; None appends.
    aborted
        How many jobs write as much before, and are aborted.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    from lance_df.spark.options import SourceOptions
    from lance_df.spark.writing import writer_for

    given = {"path": root, "runId": run_id}
    if overwrite == "dynamic":
        given["partitionOverwriteMode"] = "dynamic"
    options = SourceOptions.parse(given)
    for left in range(aborted, -1, -1):
        writer = writer_for(options, from_arrow_schema(tasks[0].schema), overwrite=overwrite is not None)
        messages: list[Any] = []
        for table in tasks:
            sent = pickle.loads(pickle.dumps(writer))
            messages.append(pickle.loads(pickle.dumps(sent.write(iter(table.to_batches(max_chunksize=20))))))
        if left:
            writer.abort(messages)
        else:
            writer.commit(messages)


def in_tasks(work: Callable[[Any], object]) -> None:
    """Call a function of `lance_df.spark` whose tasks run in this process, one after the other."""
    from lance_df.spark.pipeline import compaction, repartitioning

    def run_in_tasks(_: object, function: Callable[[Any], object], pieces: list[Any]) -> list[Any]:
        results = []
        for piece in pieces:
            sent, received = pickle.loads(pickle.dumps((function, piece)))
            results.append(pickle.loads(pickle.dumps(sent(received))))
        return results

    for module in (compaction, repartitioning):
        vars(module).update(run_in_tasks=run_in_tasks, num_workers=lambda _: 2)
    work(None)


def set_thresholds(values: dict[str, Any]) -> None:
    """Set limits, by ``module:object.limit``, constants, by ``module:name``, and what functions set."""
    from importlib import import_module

    for key, setting in values.items():
        module, name = key.split(":")
        found = import_module(module)
        if "." in name:
            adjustable, limit = name.split(".")
            getattr(found, adjustable).replace(**{limit: setting})
        elif callable(getattr(found, name, None)):
            getattr(found, name)(setting)
        elif hasattr(found, name):
            setattr(found, name, setting)
        else:
            raise AttributeError(f"{module} has no {name}")


def killed_at(folder: str, number: int, part: str = "") -> None:
    """End this process with SIGKILL when it changes a file below a folder for the given time.

    Parameters
    ----------
    part
        What the paths of the changes that count match.
    """
    left = [number]
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    wanted = re.compile(part)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            is_change = isinstance(arguments[2], int) and bool(arguments[2] & writes)
        else:
            is_change = event in ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir")
        if not is_change:
            return
        paths = [str(each) for each in arguments[:2]]
        if not any(path.startswith(folder) and wanted.search(path) for path in paths):
            return
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)

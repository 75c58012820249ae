"""What the steps of a history call. Programs that reproduce a failure begin with this text."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import signal
import sys
from collections.abc import Callable
from typing import Any

import datafusion  # noqa: F401 - for checks
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
        return None if number % 97 == 96 else (number + salt) % count
    if role == "small":
        return None if mixed % 13 == 5 else mixed % 9
    if role == "text":
        return _TEXTS[mixed % len(_TEXTS)]
    if role == "real":
        return _REALS[mixed % len(_REALS)]
    if role == "day":
        return None if mixed % 53 == 9 else dt.date(2023, 1, 1) + dt.timedelta(days=mixed % 800)
    if role == "items":
        return None if mixed % 11 == 7 else list(range(mixed % 4))
    raise ValueError(f"role {role!r} is unknown")


def arrow_type(name: str) -> pa.DataType:
    """Return an Arrow type by its name."""
    return pa.list_(pa.int32()) if name == ITEMS else pa.type_for_alias(name)


def schema(columns: list[tuple[str, str, str]]) -> pa.Schema:
    """Return the schema of columns, each a name, a role and a type."""
    return pa.schema([(name, arrow_type(kind)) for name, _, kind in columns])


def rows(columns: list[tuple[str, str, str]], numbers: list[int], salt: int = 0) -> pa.Table:
    """Return one row for each number."""
    arrays = [
        pa.array([value(role, number, salt) for number in numbers], arrow_type(kind))
        for _, role, kind in columns
    ]
    return pa.table(arrays, schema(columns))


def canonical(table: pa.Table) -> tuple[list[tuple[str, str]], list[str]]:
    """Return names and types of columns, and the rows as texts, in their order."""
    columns = [column.to_pylist() for column in table.columns]
    fields = [(field.name, str(field.type)) for field in table.schema]
    return fields, [repr(row) for row in zip(*columns, strict=True)]


def members_by_pylance(root: str) -> list[str]:
    """Return the rows of all members that ``__manifest`` publishes, read by pylance alone."""
    manifest = lance.dataset(os.path.join(root, "__manifest")).to_table().to_pylist()
    found: list[str] = []
    for row in manifest:
        if row["object_type"] == "table" and row["read_version"] is not None:
            member: Any = lance.dataset(os.path.join(root, row["location"]), version=row["read_version"])
            member.validate()
            found += canonical(member.to_table())[1]
    return found


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


def spark_append(root: str, tasks: list[pa.Table], run_id: str) -> None:
    """Write what tasks of Spark would, and commit it as Spark's driver does."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from lance_df.spark.options import SourceOptions
    from lance_df.spark.writing import writer_for

    options = SourceOptions.parse({"path": root, "runId": run_id})
    writer = writer_for(options, from_arrow_schema(tasks[0].schema), overwrite=False)
    messages = []
    for table in tasks:
        sent = pickle.loads(pickle.dumps(writer))
        messages.append(pickle.loads(pickle.dumps(sent.write(iter(table.to_batches(max_chunksize=20))))))
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
    """Set limits of the package, by ``module:object.limit``, and constants, by ``module:name``."""
    from importlib import import_module

    for key, setting in values.items():
        module, name = key.split(":")
        found = import_module(module)
        if "." in name:
            adjustable, limit = name.split(".")
            getattr(found, adjustable).replace(**{limit: setting})
        elif hasattr(found, name):
            setattr(found, name, setting)
        else:
            raise AttributeError(f"{module} has no {name}")


def killed_at(folder: str, number: int) -> None:
    """End this process with SIGKILL when it changes a file below a folder for the given time."""
    left = [number]
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            is_change = isinstance(arguments[2], int) and bool(arguments[2] & writes)
        else:
            is_change = event in ("os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir")
        if not is_change or not any(str(each).startswith(folder) for each in arguments[:2]):
            return
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)

"""Writes partitioned namespaces with pylance, to the letter of the specification, and damaged ones.

lance_df takes no part: partitions are given by hand, or their buckets by mmh3.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lance
import mmh3
import pyarrow as pa

_BASE36 = "abcdefghijklmnopqrstuvwxyz0123456789"
_BASE = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)
_READ = pa.schema(
    [
        pa.field("read_version", pa.uint64()),
        pa.field("read_branch", pa.string()),
        pa.field("read_tag", pa.string()),
    ]
)
_JSON_TYPES: Mapping[pa.DataType, Mapping[str, Any]] = {
    pa.int16(): {"type": "int16"},
    pa.int32(): {"type": "int32"},
    pa.int64(): {"type": "int64"},
    pa.float64(): {"type": "float64"},
    pa.string(): {"type": "utf8"},
    pa.date32(): {"type": "date32"},
    pa.timestamp("us"): {"type": "timestamp"},
    pa.decimal128(9, 2): {"type": "decimal128", "length": 9002},
}


@dataclasses.dataclass(frozen=True)
class Field:
    """A partition field: how it is written, and the type of its column."""

    field_id: str
    source_ids: Sequence[int]
    how: Mapping[str, Any]
    result_type: pa.DataType

    def to_json(self) -> dict[str, Any]:
        """Return the object of a partition spec."""
        result = _JSON_TYPES[self.result_type]
        return {"field_id": self.field_id, "source_ids": self.source_ids, **self.how, "result_type": result}


@dataclasses.dataclass
class Partition:
    """Rows of one partition. Each of ``commits`` is a version; ``read`` says which one is published."""

    spec: int
    values: Sequence[Any]
    commits: Sequence[Sequence[Sequence[Any]]]
    names: Sequence[str] = ()
    folder_hash: str = ""
    read: Mapping[str, Any] | None = None
    prepare: Callable[[lance.LanceDataset], None] | None = None


def transform(name: str, **parameters: int) -> dict[str, Any]:
    """Return what a partition field has of a transform."""
    return {"transform": {"type": name, **parameters}}


def write_namespace(
    root: Path,
    schema: pa.Schema,
    specs: Sequence[Sequence[Field]],
    partitions: Sequence[Partition],
    *,
    ids: Sequence[int] | None = None,
    manifest_columns: pa.Schema = _READ,
) -> None:
    """Write a namespace.

    Parameters
    ----------
    ids
        The field ids of the columns; by default 0, 1 …, as pylance gives them to the members.
    manifest_columns
        The optional columns of ``__manifest``.
    """
    fields = {field.field_id: field for spec in specs for field in spec}
    rows: dict[str, dict[str, Any]] = {}
    for number in range(1, len(specs) + 1):
        rows[f"v{number}"] = {"object_type": "namespace"}
    for partition in partitions:
        path, values = [f"v{partition.spec}"], {}
        for level, (field, value) in enumerate(zip(specs[partition.spec - 1], partition.values, strict=True)):
            values[f"partition_field_{field.field_id}"] = value
            path.append(partition.names[level] if partition.names else _name(root.name, path, value))
            rows.setdefault("$".join(path), {"object_type": "namespace", **values})
        object_id = "$".join([*path, "dataset"])
        prefix = partition.folder_hash or hashlib.sha256(f"{root.name}{object_id}".encode()).hexdigest()[:8]
        location = f"{prefix}_{object_id}"
        version = _write_member(root / location, schema, partition, ids)
        read = {"read_version": version} if partition.read is None else partition.read
        rows[object_id] = {"object_type": "table", "location": location, **values, **read}
    columns = pa.schema(
        [*_BASE, *manifest_columns]
        + [pa.field(f"partition_field_{field.field_id}", field.result_type) for field in fields.values()]
    )
    listed = [{"object_id": name, "metadata": "{}", **row} for name, row in rows.items()]
    metadata = {
        f"partition_spec_v{number}": _text({"id": number, "fields": [field.to_json() for field in spec]})
        for number, spec in enumerate(specs, 1)
    }
    write_manifest(
        root, pa.Table.from_pylist(listed, columns), {**metadata, "schema": schema_text(schema, ids)}
    )


def write_manifest(root: Path, rows: pa.Table, metadata: Mapping[str, str]) -> None:
    """Write the ``__manifest`` table of a namespace."""
    made = lance.write_dataset(rows, root / "__manifest", data_storage_version="2.1")
    made.update_metadata(dict(metadata))


def schema_text(schema: pa.Schema, ids: Sequence[int] | None = None) -> str:
    """Return the JSON text of a schema."""
    numbers = range(len(schema)) if ids is None else ids
    return _text(
        {
            "fields": [
                {
                    "name": field.name,
                    "nullable": field.nullable,
                    "type": _JSON_TYPES[field.type],
                    "metadata": {"lance:field_id": str(number)},
                }
                for field, number in zip(schema, numbers, strict=True)
            ]
        }
    )


def bucket(number: int, *values: object) -> int | None:
    """Return the bucket of integers and texts, by mmh3."""
    if all(value is None for value in values):
        return None
    parts = (
        value.to_bytes(8, "little", signed=True) if isinstance(value, int) else str(value).encode()
        for value in values
        if value is not None
    )
    return abs(mmh3.hash(b"".join(parts))) % number


def _write_member(folder: Path, schema: pa.Schema, partition: Partition, ids: Sequence[int] | None) -> int:
    first, *others = partition.commits
    dataset = lance.write_dataset(_table(first, schema, ids), folder, data_storage_version="2.1")
    if ids is not None:
        # the stand-ins of columns that are gone
        gone = [field.name for field in dataset.schema if field.name not in schema.names]
        if gone:
            dataset.drop_columns(gone)
            dataset = lance.dataset(folder)
    for rows in others:
        dataset = lance.write_dataset(_table(rows, schema, None), folder, mode="append")
    if partition.prepare is not None:
        partition.prepare(dataset)
    return dataset.version


def _table(rows: Sequence[Sequence[Any]], schema: pa.Schema, ids: Sequence[int] | None) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    table = pa.table(
        [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )
    if ids is None:
        return table
    for number in range(max(ids) + 1):
        if number not in ids:
            table = table.add_column(number, f"gone_{number}", pa.nulls(len(table), pa.int8()))
    return table


def _name(seed: str, path: Sequence[str], value: object) -> str:
    digest = hashlib.sha256(f"{seed}{'$'.join(path)}{value!r}".encode()).digest()
    return "".join(_BASE36[byte % 36] for byte in digest[:16])


def _text(data: object) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def write_namespaces(corpus: Path) -> None:
    """Write ``namespaces``."""
    folder = Path("namespaces")
    corpus.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(corpus):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for write in (_appendices, _calendar, _values, _buckets, _versions, _half_written):
            write(folder)
        for write in (_columns_gone, _damaged):
            write(folder)


EVENTS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("event_date", pa.date32()),
        pa.field("country", pa.string()),
    ]
)
EVENT_DATE = Field("event_date", [1], transform("identity"), pa.date32())
EVENT_YEAR = Field("event_year", [1], transform("year"), pa.int32())
COUNTRY = Field("country", [2], transform("identity"), pa.string())
TENTH, ELEVENTH = dt.date(2025, 12, 10), dt.date(2025, 12, 11)


def _appendices(folder: Path) -> None:
    """Write the namespace of appendices A to E, with their names, folders and versions; and those of F."""
    first = [
        [(1, TENTH, "US")],
        [(2, TENTH, "DE")],
        [(3, TENTH, None)],
        [(4, TENTH, "US")],
        [(5, TENTH, "NO")],
    ]
    partitions = [
        Partition(1, [TENTH], first, ["k7m2n9p4q8r5s3t6"], "b4a3c2d1"),
        Partition(
            1, [ELEVENTH], [[(6, ELEVENTH, "US"), (7, ELEVENTH, "DE")]], ["w1x2y3z4a5b6c7d8"], "55667788"
        ),
        Partition(
            2,
            [2025, "US"],
            [[(8, TENTH, "US")], [(9, dt.date(2025, 1, 5), "US")], [(10, ELEVENTH, "US")]],
            ["e9f0g1h2i3j4k5l6", "m7n8o9p0q1r2s3t4"],
            "aabbccdd",
        ),
        Partition(2, [2024, "US"], [[(11, dt.date(2024, 12, 10), "US")]]),
        Partition(2, [2025, "DE"], [[(12, TENTH, "DE")]], ["e9f0g1h2i3j4k5l6", "a1b2c3d4e5f6g7h8"]),
        Partition(2, [2025, None], [[(13, TENTH, None)]], ["e9f0g1h2i3j4k5l6", "z9y8x7w6v5u4t3s2"]),
        Partition(2, [None, "US"], [[(14, None, "US")]]),
    ]
    write_namespace(folder / "events", EVENTS, [[EVENT_DATE], [EVENT_YEAR, COUNTRY]], partitions)
    _keyed(folder / "orders", "customer_id", "customer_bucket", 16, range(24), 100)
    _keyed(folder / "customers", "id", "id_bucket", 8, range(24), 500)


def _keyed(root: Path, key: str, field_id: str, num_buckets: int, keys: Sequence[int], base: int) -> None:
    schema = pa.schema([pa.field(key, pa.int64()), pa.field("n", pa.int32())])
    buckets: dict[int | None, list[tuple[int, int]]] = {}
    for number in keys:
        buckets.setdefault(bucket(num_buckets, number), []).append((number, base + number))
    field = Field(field_id, [0], transform("bucket", num_buckets=num_buckets), pa.int32())
    partitions = [Partition(1, [value], [rows]) for value, rows in sorted(buckets.items())]
    write_namespace(root, schema, [[field]], partitions)


def _calendar(folder: Path) -> None:
    """Write namespaces by parts of times, of different depths."""
    schema = pa.schema([pa.field("at", pa.timestamp("us")), pa.field("n", pa.int32())])
    moments = [
        dt.datetime(2023, 12, 31, 23, 59, 59, 999999),
        dt.datetime(2024, 1, 1, 0, 0),
        dt.datetime(2024, 2, 29, 12, 30),
        dt.datetime(2024, 3, 31, 6, 0),
        dt.datetime(2024, 3, 1, 18, 0),
        dt.datetime(1969, 12, 31, 23, 0),
        None,
    ]
    parts = {
        "months": ("year", "month"),
        "days": ("year", "month", "day"),
        "hours": ("hour",),
        "days_alone": ("day",),
    }
    for name, kinds in parts.items():
        fields = [Field(f"at_{kind}", [0], transform(kind), pa.int32()) for kind in kinds]
        grouped: dict[tuple[Any, ...], list[tuple[Any, int]]] = {}
        for number, moment in enumerate(moments):
            values = tuple(None if moment is None else getattr(moment, kind) for kind in kinds)
            grouped.setdefault(values, []).append((moment, number))
        partitions = [Partition(1, values, [rows]) for values, rows in grouped.items()]
        write_namespace(folder / name, schema, [fields], partitions)


def _values(folder: Path) -> None:
    """Write namespaces by values that are hard to name, to order or to compare."""
    schema = pa.schema([pa.field("name", pa.string()), pa.field("n", pa.int32())])
    texts = ["", "a$b", "x/y", "k=v", "NULL", "naïve", "日本語", "zzz", None]
    identity = Field("name", [0], transform("identity"), pa.string())
    write_namespace(
        folder / "texts",
        schema,
        [[identity]],
        [Partition(1, [text], [[(text, n)]]) for n, text in enumerate(texts)],
    )
    prefix = Field("name_truncate", [0], transform("truncate", width=2), pa.string())
    cut: dict[str | None, list[tuple[str | None, int]]] = {}
    for n, text in enumerate(texts):
        cut.setdefault(None if text is None else text[:2], []).append((text, n))
    write_namespace(
        folder / "prefixes",
        schema,
        [[prefix]],
        [Partition(1, [value], [rows]) for value, rows in cut.items()],
    )
    numbers = pa.schema([pa.field("amount", pa.int32()), pa.field("share", pa.float64())])
    steps = Field("amount_truncate", [0], transform("truncate", width=10), pa.int32())
    write_namespace(
        folder / "steps",
        numbers,
        [[steps]],
        [
            Partition(1, [-10], [[(-10, 1.0), (-19, 2.0)]]),
            Partition(1, [0], [[(-9, 3.0), (0, 4.0), (9, 5.0)]]),
            Partition(1, [10], [[(10, 6.0), (19, 7.0)]]),
            Partition(1, [None], [[(None, 8.0)]]),
        ],
    )
    share = Field("share", [1], transform("identity"), pa.float64())
    write_namespace(
        folder / "floats",
        numbers,
        [[share]],
        [
            Partition(1, [0.0], [[(1, 0.0), (2, -0.0)]]),
            Partition(1, [float("nan")], [[(3, float("nan"))]]),
            Partition(1, [1.5], [[(4, 1.5)]]),
            Partition(1, [float("inf")], [[(5, float("inf"))]]),
            Partition(1, [None], [[(6, None)]]),
        ],
    )
    custom = Field("first_letter", [0], {"expression": "upper(left(col0, 1))"}, pa.string())
    write_namespace(
        folder / "letters",
        schema,
        [[custom]],
        [
            Partition(1, ["A"], [[("a", 1), ("Abc", 2)]]),
            Partition(1, ["B"], [[("bcd", 3)]]),
            Partition(1, [""], [[("", 4)]]),
            Partition(1, [None], [[(None, 5)]]),
        ],
    )
    several = Field("sum", [0, 1], {"expression": "coalesce(col0, 0) + coalesce(col1, 0)"}, pa.int64())
    pairs = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.int64())])
    write_namespace(
        folder / "sums",
        pairs,
        [[several]],
        [
            Partition(1, [3], [[(1, 2), (3, None), (None, 3)]]),
            Partition(1, [0], [[(None, None), (0, 0)]]),
            Partition(1, [5], [[(2, 3)]]),
        ],
    )


def _buckets(folder: Path) -> None:
    """Write namespaces that can be joined with one another, or cannot."""
    _keyed(folder / "orders12", "customer_id", "customer_bucket", 12, [1, 2, 3, 5, 8, 13, 21], 900)
    schema = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string()), pa.field("n", pa.int32())])
    rows = [(1, "x", 0), (1, "y", 1), (None, "x", 2), (1, None, 3), (None, None, 4), (2, "x", 5)]
    grouped: dict[int | None, list[Any]] = {}
    for row in rows:
        grouped.setdefault(bucket(4, row[0], row[1]), []).append(row)
    field = Field("a_b_bucket", [0, 1], transform("multi_bucket", num_buckets=4), pa.int32())
    write_namespace(
        folder / "pairs",
        schema,
        [[field]],
        [Partition(1, [value], [each]) for value, each in grouped.items()],
    )
    keys = pa.schema([pa.field("id", pa.int32()), pa.field("n", pa.int32())])
    identity = Field("id", [0], transform("identity"), pa.int32())
    write_namespace(
        folder / "customers_by_id",
        keys,
        [[identity]],
        [Partition(1, [n], [[(n, n)]]) for n in (1, 2, 3, 5)] + [Partition(1, [None], [[(None, 0)]])],
    )
    letters = pa.schema([pa.field("name", pa.string()), pa.field("m", pa.int32())])
    prefix = Field("name_truncate", [0], transform("truncate", width=1), pa.string())
    write_namespace(
        folder / "initials",
        letters,
        [[prefix]],
        [
            Partition(1, ["a"], [[("a$b", 1)]]),
            Partition(1, ["z"], [[("zzz", 2)]]),
            Partition(1, [None], [[(None, 3)]]),
        ],
    )


def _versions(folder: Path) -> None:
    """Write namespaces whose members are read at versions, of branches, by tags, or at the newest version."""
    schema = pa.schema([pa.field("kind", pa.string()), pa.field("n", pa.int32())])
    kind = Field("kind", [0], transform("identity"), pa.string())

    def tag(dataset: lance.LanceDataset) -> None:
        dataset.tags.create("published", 1)

    def branch(dataset: lance.LanceDataset) -> None:
        other = dataset.create_branch("draft", 1)
        # it has no file of the parent, whose absolute path pylance would record
        lance.write_dataset(_table([("branch", 12)], schema, None), other, mode="overwrite")

    def commits(name: str) -> list[list[tuple[str, int]]]:
        return [[(name, 1)], [(name, 2)], [(name, 3)]]

    write_namespace(
        folder / "versions",
        schema,
        [[kind]],
        [
            Partition(1, ["version"], commits("version"), read={"read_version": 2}),
            Partition(
                1,
                ["branch"],
                commits("branch"),
                read={"read_branch": "draft", "read_version": 2},
                prepare=branch,
            ),
            Partition(1, ["tag"], commits("tag"), read={"read_tag": "published"}, prepare=tag),
            Partition(1, ["newest"], commits("newest"), read={}),
        ],
    )
    write_namespace(
        folder / "without_versions",
        schema,
        [[kind]],
        [Partition(1, [name], commits(name), read={}) for name in ("a", "b")],
        manifest_columns=pa.schema([]),
    )


def _half_written(folder: Path) -> None:
    """Write namespaces where a write to two members ended after the first, without and with versions."""
    schema = pa.schema([pa.field("kind", pa.string()), pa.field("n", pa.int32())])
    kind = Field("kind", [0], transform("identity"), pa.string())
    reads: dict[str, dict[str, int]] = {"half_written": {}, "half_written_pinned": {"read_version": 1}}
    for name, read in reads.items():
        partitions = [
            Partition(1, ["a"], [[("a", 1)], [("a", 2)]], read=read),
            Partition(1, ["b"], [[("b", 1)]], read=read),
        ]
        columns = _READ if read else pa.schema([])
        write_namespace(folder / name, schema, [[kind]], partitions, manifest_columns=columns)


def _columns_gone(folder: Path) -> None:
    """Write a namespace whose source column is gone, and one whose source column has another name."""
    left = pa.schema([pa.field("id", pa.int64()), pa.field("country", pa.string())])
    write_namespace(
        folder / "source_gone",
        left,
        [[EVENT_YEAR], [EVENT_YEAR, COUNTRY]],
        [
            Partition(1, [2024], [[(1, "US")]]),
            Partition(1, [2025], [[(2, "DE")]]),
            Partition(2, [None, "US"], [[(3, "US")]]),
        ],
        ids=[0, 2],
    )
    renamed = pa.schema([EVENTS.field(0), pa.field("happened_on", pa.date32()), EVENTS.field(2)])
    write_namespace(
        folder / "source_renamed",
        renamed,
        [[EVENT_YEAR]],
        [
            Partition(1, [2024], [[(1, dt.date(2024, 5, 5), "US")]]),
            Partition(1, [2025], [[(2, TENTH, "DE")]]),
        ],
    )


def _damaged(folder: Path) -> None:
    """Write namespaces that are wrong in one way each."""
    schema = pa.schema([pa.field("kind", pa.string()), pa.field("n", pa.int32())])
    kind = Field("kind", [0], transform("identity"), pa.string())
    whole = folder / "damaged" / "whole"
    write_namespace(whole, schema, [[kind]], [Partition(1, [name], [[(name, 1)]]) for name in ("a", "b")])
    manifest = lance.dataset(whole / "__manifest")
    rows, metadata = manifest.to_table(), manifest.metadata

    def damaged(
        name: str,
        change_rows: Callable[[pa.Table], pa.Table] = lambda table: table,
        **changed_metadata: str | None,
    ) -> None:
        root = folder / "damaged" / name
        for member in whole.iterdir():
            if member.name != "__manifest":
                shutil.copytree(member, root / member.name)
        texts = {key: value for key, value in {**metadata, **changed_metadata}.items() if value is not None}
        write_manifest(root, change_rows(rows), texts)

    def edited(object_type: str, **values: Any) -> Callable[[pa.Table], pa.Table]:
        """Change the first row of a kind."""

        def change(table: pa.Table) -> pa.Table:
            listed = table.to_pylist()
            of_type = [row for row in listed if row["object_type"] == object_type]
            of_type[0].update(values)
            return pa.Table.from_pylist(listed, table.schema)

        return change

    def doubled(table: pa.Table) -> pa.Table:
        return pa.concat_tables([table, table.slice(len(table) - 1)])

    def retyped(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index("partition_field_kind")
        return table.set_column(index, "partition_field_kind", pa.nulls(len(table), pa.int32()))

    damaged("no_partition_column", lambda table: table.drop_columns(["partition_field_kind"]))
    damaged("partition_column_of_another_type", retyped)
    damaged("no_object_type", lambda table: table.drop_columns(["object_type"]))
    damaged("no_schema", schema=None)
    damaged("no_location", edited("table", location=None))
    damaged("a_table_twice", doubled)
    damaged("no_such_version", edited("table", read_version=9))
    damaged("no_such_tag", edited("table", read_version=None, read_tag="none"))
    damaged("no_such_folder", edited("table", location="00000000_nothing"))
    damaged("version_and_tag", edited("table", read_version=1, read_tag="t"))
    damaged("branch_and_tag", edited("table", read_version=None, read_branch="b", read_tag="t"))
    damaged("branch_alone", edited("table", read_version=None, read_branch="b"))
    damaged("folder_outside", edited("table", location="../whole"))
    other = pa.schema([schema.field(0), pa.field("n", pa.string())])
    damaged("member_of_other_types")
    member = next(
        path
        for path in sorted((folder / "damaged/member_of_other_types").iterdir())
        if path.name != "__manifest"
    )
    shutil.rmtree(member)
    lance.write_dataset(_table([("a", "text")], other, None), member, data_storage_version="2.1")
    shutil.rmtree(whole)

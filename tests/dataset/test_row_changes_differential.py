"""Random sequences of changes, by pylance on one table, and by both libraries in turn on a copy of it."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string(), nullable=False),
        pa.field("price", pa.float64()),
        pa.field("day", pa.date32()),
        pa.field("place", STRUCT),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("kind", pa.dictionary(pa.int8(), pa.string())),
    ]
)
# neither 2.0 nor 0.1 files know null structs
WITHOUT_STRUCT = SCHEMA.remove(SCHEMA.get_field_index("place"))
LEGACY = WITHOUT_STRUCT.remove(WITHOUT_STRUCT.get_field_index("kind"))
SCHEMAS = {"2.2": SCHEMA, "2.1": SCHEMA, "2.0": WITHOUT_STRUCT, "0.1": LEGACY}
PREDICATES = (
    "id % 7 = 3",
    "name like 'n1%' and price > 50",
    "price is null",
    "day >= date '2020-03-01' or id is null",
    "place.x < 20",
    "not (price < 30)",
    "id in (1, 5, 9, 13, 400)",
    "false",
    "name = 'nobody'",
    "array_length(tags) = 2",
)
ASSIGNMENTS = (
    {"price": "price * 2"},
    {"name": "concat(name, '!')", "id": "id + 1000"},
    {"day": "NULL", "price": "'12.5'"},
    {"place": "named_struct('x', id, 'y', name)"},
    {"tags": "make_array(name)"},
    {"price": "id", "name": "upper(name)"},
)
CONDITIONS = (None, "source.price > target.price", "target.name <> source.name or target.price is null")


def rows(rng: random.Random, count: int, *, ids: range, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows with distinct ids, a few null ones among them."""
    chosen: list[int | None] = rng.sample(ids, count)  # type: ignore[assignment]
    for position in rng.sample(range(count), count // 20):
        chosen[position] = None
    values = [
        {
            "id": id_,
            "name": f"n{rng.randrange(200)}",
            "price": rng.choice([None, 0.0, rng.uniform(0, 100)]),
            "day": rng.choice([None, dt.date(2020, 1, 1) + dt.timedelta(rng.randrange(120))]),
            "place": rng.choice([None, {"x": rng.randrange(50), "y": rng.choice(["a", "ü", ""])}]),
            "tags": rng.choice([None, [], ["a", None], ["b"]]),
            "kind": rng.choice([None, "red", "green"]),
        }
        for id_ in chosen
    ]
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in values], schema)


def merge_step(rng: random.Random, schema: pa.Schema) -> Callable[[Any], Any]:
    source = rows(rng, rng.choice([1, 40, 120]), ids=range(700), schema=schema)
    if rng.random() < 0.4:
        source = source.select(["id", "name", *rng.sample(schema.names[2:], 2)])
    condition, predicate = rng.choice(CONDITIONS), rng.choice(PREDICATES[:4])
    if "price" not in source.schema.names and condition is not None:
        condition = CONDITIONS[2].replace(" or target.price is null", "")
    clauses = rng.choice(["upsert", "insert", "update", "update if", "delete", "replace", "by source"])

    def run(dataset: Any) -> Any:
        builder = dataset.merge_insert("id")
        if clauses in ("upsert", "update", "replace"):
            builder = builder.when_matched_update_all()
        if clauses == "update if":
            builder = builder.when_matched_update_all(condition)
        if clauses == "delete":
            builder = builder.when_matched_delete()
        if clauses in ("upsert", "insert", "replace"):
            builder = builder.when_not_matched_insert_all()
        if clauses in ("replace", "by source"):
            builder = builder.when_not_matched_by_source_delete(predicate)
        return builder.execute(source)

    return run


def step(rng: random.Random, schema: pa.Schema) -> Callable[[Any], Any]:
    """Return a change, the same for both libraries."""
    predicate = rng.choice([text for text in PREDICATES if "place" in schema.names or "place" not in text])
    match rng.choice(["delete", "update", "update", "merge", "merge", "merge", "append"]):
        case "delete":
            return lambda dataset: dataset.delete(predicate)
        case "update":
            assigned = rng.choice([each for each in ASSIGNMENTS if set(each) <= set(schema.names)])
            return lambda dataset: dataset.update(assigned, where=predicate)
        case "append":
            more = rows(rng, 60, ids=range(900), schema=schema)
            return lambda dataset: dataset.insert(more)
        case _:
            return merge_step(rng, schema)


def content(dataset: Any, *, stable: bool) -> list[dict[str, Any]]:
    columns = [*dataset.schema.names, "_row_created_at_version", "_row_last_updated_at_version"]
    table = dataset.to_table(columns=columns if stable else columns[:-2])
    kind = table.schema.get_field_index("kind")
    if kind >= 0:
        table = table.set_column(kind, "kind", table.column(kind).cast(pa.string()))
    return sorted(table.to_pylist(), key=repr)


def row_ids(path: str) -> list[int]:
    return sorted(lance.dataset(path).to_table(columns=[], with_row_id=True)["_rowid"].to_pylist())


@pytest.mark.parametrize(
    ("version", "stable", "seed"),
    [
        ("2.2", True, 1),
        ("2.2", False, 2),
        ("2.1", True, 3),
        ("2.0", False, 4),
        ("2.0", True, 5),
        ("0.1", False, 6),
    ],
)
def test_random_changes(tmp_path: Path, version: str, stable: bool, seed: int):
    rng = random.Random(seed)
    schema = SCHEMAS[version]
    theirs_path, mixed_path = str(tmp_path / "theirs.lance"), str(tmp_path / "mixed.lance")
    lance.write_dataset(
        rows(rng, 400, ids=range(600), schema=schema),
        theirs_path,
        max_rows_per_file=150,
        data_storage_version=version,
        enable_stable_row_ids=stable,
    )
    if version != "0.1":
        lance.dataset(theirs_path).create_scalar_index("name", "BTREE")
    shutil.copytree(theirs_path, mixed_path)
    for number in range(9):
        change = step(rng, schema)
        expected = change(lance.dataset(theirs_path))
        library = lance_df if number % 4 else lance
        found = change(library.dataset(mixed_path))
        assert found == expected
        theirs, mixed = lance.dataset(theirs_path), lance.dataset(mixed_path)
        mixed.validate()
        assert mixed.version == theirs.version
        reference = content(theirs, stable=stable)
        assert content(mixed, stable=stable) == reference
        assert content(lance_df.dataset(mixed_path), stable=stable) == reference
        assert mixed.count_rows("id >= 100") == theirs.count_rows("id >= 100")
        if stable:
            assert row_ids(mixed_path) == row_ids(theirs_path)

"""Random merges in tasks leave the rows that MERGE of SQL leaves on one machine.

``LANCE_DF_MERGES`` sets how many merges there are for each kind of target.
"""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_df

pytestmark = pytest.mark.spark

MERGES = int(os.environ.get("LANCE_DF_MERGES", "4"))
KEYS = 120
TYPE = pa.schema(
    [("id", pa.int64()), ("p", pa.string()), ("n", pa.int64()), ("x", pa.float64()), ("s", pa.string())]
)
PARTS = ["a", "ü", "", None, "long name of a partition"]
VALUES = {
    "n": ["source.n", "target.n + 1", "coalesce(target.n, 0) * 2 + source.n", "7", "NULL"],
    "x": ["source.x", "target.x / 2.0", "0.75", "NULL"],
    "s": ["source.s", "target.s || '+'", "source.s || target.s", "'☃'", "NULL"],
    "p": ["source.p", "'moved'", "target.p", "NULL"],
}
CONDITIONS = [
    "{row}.n IS NULL",
    "{row}.n > 40",
    "{row}.x < 0.5 OR {row}.s = ''",
    "{row}.p IS NOT NULL AND {row}.p <> 'a'",
    "{row}.id % 3 = 0",
    "{row}.s LIKE 's1%'",
]


def drawn_rows(draw: random.Random, ids: list[int | None]) -> pa.Table:
    count = len(ids)
    return pa.table(
        {
            "id": ids,
            "p": [draw.choice(PARTS) for _ in range(count)],
            "n": [draw.choice([None, draw.randrange(100)]) for _ in range(count)],
            "x": [draw.choice([None, float("nan"), -0.0, 0.25, draw.random()]) for _ in range(count)],
            "s": [draw.choice([None, "", f"s{draw.randrange(20)}", "naïve ☃"]) for _ in range(count)],
        },
        schema=TYPE,
    )


def condition(draw: random.Random, *aliases: str) -> str | None:
    if draw.random() < 0.4:
        return None
    return draw.choice(CONDITIONS).format(row=draw.choice(aliases))


def values(draw: random.Random, *aliases: str) -> dict[str, str]:
    """Return what some columns become, of the rows that there are."""
    other = {"source": "target.", "target": "source."}
    missing = [other[alias] for alias in aliases] if len(aliases) == 1 else []
    names = draw.sample(sorted(VALUES), draw.randint(1, len(VALUES)))
    return {
        name: draw.choice([text for text in VALUES[name] if not any(each in text for each in missing)])
        for name in names
    }


def drawn_clauses(draw: random.Random) -> list[tuple[str, str, str | None, dict[str, str] | None]]:
    """Return clauses: rows, action, condition, values."""
    clauses: list[tuple[str, str, str | None, dict[str, str] | None]] = []
    for _ in range(draw.randint(0, 2)):
        if draw.random() < 0.3:
            clauses.append(("matched", "delete", condition(draw, "source", "target"), None))
        else:
            both = ("source", "target")
            clauses.append(("matched", "update", condition(draw, *both), values(draw, *both)))
    for _ in range(draw.randint(0, 2)):
        given = values(draw, "source") | {"id": "source.id"}
        clauses.append(("not_matched", "insert", condition(draw, "source"), given))
    if draw.random() < 0.5:
        if draw.random() < 0.5:
            clauses.append(("not_matched_by_source", "delete", condition(draw, "target"), None))
        else:
            given = values(draw, "target")
            clauses.append(("not_matched_by_source", "update", condition(draw, "target"), given))
    return clauses or [("matched", "update", None, {"n": "source.n"})]


def merged_by_spark(builder: Any, clauses: list[Any]) -> Any:
    for rows, action, where, given in clauses:
        add = getattr(builder, f"when_{rows}_{action}")
        builder = add(condition=where) if given is None else add(given, condition=where)
    return builder.execute()


def merged_by_sql(path: Path, source: pa.Table, on: list[str], clauses: list[Any]) -> None:
    texts = []
    for rows, action, where, given in clauses:
        words = f"WHEN {rows.replace('_', ' ').upper()}" + (f" AND ({where})" if where else "")
        if action == "update":
            words += " THEN UPDATE SET " + ", ".join(f"{name} = {text}" for name, text in given.items())
        elif action == "insert":
            words += f" THEN INSERT ({', '.join(given)}) VALUES ({', '.join(given.values())})"
        else:
            words += " THEN DELETE"
        texts.append(words)
    ctx = lance_df.SessionContext()
    lance_df.register(ctx, "t", str(path))
    ctx.from_arrow(source, "src")
    keys = " AND ".join(f"target.{name} = source.{name}" for name in on)
    ctx.sql(f"MERGE INTO t AS target USING src AS source ON {keys} {' '.join(texts)}").collect()


def opened(path: Path) -> Any:
    if (path / "__manifest").exists():
        return lance_df.PartitionedNamespace.open(path)
    return lance_df.dataset(path)


def shown(path: Path) -> list[str]:
    """Return all rows as texts, in which NaN is equal to itself and -0.0 is not 0.0."""
    return sorted(map(repr, opened(path).to_table().to_pylist()))


@pytest.mark.parametrize("kind", ["2.0", "2.1", "stable 2.2", "namespace", "buckets"])
def test_random_merges_are_those_of_sql(spark, tmp_path, kind):
    draw = random.Random(f"{kind} {os.environ.get('LANCE_DF_MERGES_SEED', '')}")
    path = tmp_path / "ours"
    first = drawn_rows(draw, list(range(KEYS)))
    if kind in ("namespace", "buckets"):
        fields = ["identity(p)"] if kind == "namespace" else ["bucket(id, 3)", "truncate(s, 1)"]
        namespace = lance_df.PartitionedNamespace.create(path, TYPE, fields)
        namespace.append(first.slice(0, 70))
        namespace.append(first.slice(70))
    else:
        version, stable = kind.rpartition(" ")[2], kind.startswith("stable")
        lance_df.write_dataset(
            first, path, max_rows_per_file=25, data_storage_version=version, enable_stable_row_ids=stable
        )
    other = Path(shutil.copytree(path, tmp_path / "theirs"))
    for _ in range(MERGES):
        on = draw.choice([["id"], ["id", "p"]])
        clauses = drawn_clauses(draw)
        ids = draw.sample(range(KEYS + 60), draw.choice([0, 1, 30, 90]))
        source = drawn_rows(draw, [*ids, None] if draw.random() < 0.3 else ids)
        if on == ["id", "p"] and ids:
            # rows that are there, so that both keys match
            known = set(source["id"].to_pylist())
            for row in opened(path).to_table(columns=TYPE.names).slice(0, 40).to_pylist():
                if row["id"] not in known:
                    known.add(row["id"])
                    source = pa.concat_tables([source, pa.Table.from_pylist([row], TYPE)])
        frame = spark.createDataFrame(source.to_pylist(), "id long, p string, n long, x double, s string")
        frame = frame.repartition(2)
        try:
            merged_by_sql(other, source, on, clauses)
        except lance_df.LanceError as error:
            with pytest.raises(type(error)):
                merged_by_spark(lance_df.spark.merge(spark, path, frame, on), clauses)
            continue
        before = opened(path).count_rows()
        done = merged_by_spark(lance_df.spark.merge(spark, path, frame, on), clauses)
        assert shown(path) == shown(other), (on, clauses, source.to_pylist())
        assert opened(path).count_rows() == before + done.num_inserted_rows - done.num_deleted_rows
    assert lance_df.verify(path, deep=True).ok

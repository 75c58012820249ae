"""Every index kind over every type that pylance 14 indexes: no row is lost, single values are found."""

from __future__ import annotations

import datetime as dt
import decimal
from functools import cache

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_df.expr.evaluate import evaluate
from lance_df.expr.nodes import And, Column, Comparison, In, IsNull, Not, Operator, Predicate, Truth
from lance_df.table.indices import prune
from lance_df.table.open import open_table
from lance_df.table.table import Table

ROWS, PER_FRAGMENT = 600, 200


@cache
def data() -> pa.Table:
    k = np.arange(ROWS)
    absent = (k % 10 == 3) & (k < 400)
    texts = [f"é{number:04}" for number in k]

    def column(values: object, data_type: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, data_type, mask=absent)

    quarters = [decimal.Decimal(number) / 4 for number in k.tolist()]
    return pa.table(
        {
            "int8": column((k // 6 - 50).astype(np.int8)),
            "uint64": column(k.astype(np.uint64) + np.uint64(2**63)),
            "half": column((k / 4).astype(np.float16)),
            "float": column((k / 4).astype(np.float32)),
            "bool": column(k < 300),
            "date32": column(k.astype(np.int32), pa.date32()),
            "date64": column(k * 86_400_000, pa.date64()),
            "decimal128": column(quarters, pa.decimal128(12, 2)),
            "decimal256": column(quarters, pa.decimal256(42, 2)),
            "zoned": column(k, pa.timestamp("s", "Asia/Tokyo")),
            "nanos": column(k, pa.timestamp("ns")),
            "time32": column(k.astype(np.int32), pa.time32("s")),
            "time64": column(k, pa.time64("ns")),
            "duration": column(k, pa.duration("ms")),
            "large_string": column(texts, pa.large_string()),
            "large_binary": column([text.encode() for text in texts], pa.large_binary()),
            "fixed": column([text.encode() for text in texts], pa.binary(6)),
            "long": column([text * 30 for text in texts]),
            "dictionary": column([f"k{number // 10:04}" for number in k]).dictionary_encode(),
        }
    )


KINDS = {
    "BTREE": set(data().column_names) - {"dictionary"},
    "BITMAP": set(data().column_names) - {"dictionary"},
    "ZONEMAP": set(data().column_names),
    "BLOOMFILTER": set(data().column_names)
    - {"half", "bool", "decimal128", "decimal256", "duration", "fixed", "dictionary"},
}


@pytest.fixture(scope="module", params=KINDS)
def indexed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Table]:
    path = tmp_path_factory.mktemp("types") / "t.lance"
    table = lance.write_dataset(data(), path, max_rows_per_file=PER_FRAGMENT)
    for name in sorted(KINDS[request.param]):
        table.create_scalar_index(name, request.param)
    return request.param, open_table(path)


def predicates(name: str, values: pa.Array) -> dict[str, Predicate]:
    column = Column((name,))
    plain = values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
    one, other = plain[250], plain[14]
    return {
        "equal": Comparison(column, Operator.EQ, one),
        "not equal": Comparison(column, Operator.NE, one),
        "between": And((Comparison(column, Operator.GE, other), Comparison(column, Operator.LT, one))),
        "above": Comparison(column, Operator.GT, plain[450]),
        "in": In(column, pa.array([one.as_py()], plain.type) if name != "nanos" else pa.repeat(one, 1)),
        "not in": Not(In(column, pa.repeat(one, 1))),
        "null": IsNull(column),
        "not null": Not(IsNull(column)),
    }


def test_all_types(indexed: tuple[str, Table]) -> None:
    kind, table = indexed
    for name in sorted(KINDS[kind]):
        values = data()[name].combine_chunks()
        for case, predicate in predicates(name, values).items():
            truth = evaluate(predicate, {(name,): values}, ROWS).fill_null(False)
            expected = np.flatnonzero(np.asarray(truth))
            result = prune(table, predicate, [0, 1, 2])
            kept = [
                PER_FRAGMENT * number
                + (np.arange(PER_FRAGMENT) if (rows := result.rows(number)) is None else rows.positions())
                for number in range(3)
            ]
            found = np.concatenate(kept)
            assert np.isin(expected, found).all(), (name, case)
            if result.is_exact:
                assert np.array_equal(found, expected), (name, case)
            # pylance 14 records no bounds of these types
            is_unbounded = kind == "ZONEMAP" and name in ("dictionary", "fixed")
            if case == "null" or (case in ("equal", "in") and not is_unbounded):
                assert len(found) < ROWS, (name, case)
            if kind in ("BTREE", "BITMAP") and case in ("equal", "in", "null"):
                assert result.is_exact, (name, case)


def test_boolean_column_as_a_condition(indexed: tuple[str, Table]) -> None:
    kind, table = indexed
    result = prune(table, Truth(Column(("bool",))), [0, 1, 2])
    assert result.selected.tolist() == [True, True, kind == "BLOOMFILTER"]
    negated = prune(table, Not(Truth(Column(("bool",)))), [0, 1, 2])
    assert negated.selected.tolist() == [kind == "BLOOMFILTER", True, True]


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_every_data_version(version: str, kind: str, tmp_path: object) -> None:
    path = f"{tmp_path}/t.lance"
    table = lance.write_dataset(
        data().select(["int8", "large_string", "date32"]),
        path,
        max_rows_per_file=PER_FRAGMENT,
        data_storage_version=version,
    )
    for name in ("large_string", "date32"):
        table.create_scalar_index(name, kind)
    ours = open_table(path)
    text = Comparison(Column(("large_string",)), Operator.EQ, pa.scalar("é0250"))
    day = Comparison(
        Column(("date32",)), Operator.EQ, pa.scalar(dt.date(1970, 1, 1) + dt.timedelta(days=250))
    )
    for predicate in (text, day, And((text, day))):
        result = prune(ours, predicate, [0, 1, 2])
        assert result.selected.tolist() == [False, True, False]
        rows = result.rows(1)
        assert rows is None or 50 in rows.positions()

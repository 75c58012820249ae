"""Rows without the words of a LIKE are left out by scans, and nobody can tell by the result."""

from __future__ import annotations

import pyarrow as pa
import pytest
from datafusion import SessionContext

import lance_df
from lance_df.encodings import kernels
from lance_df.engine.plans.logical_scans import logical_scans
from lance_df.engine.plans.nodes import optimized_plan_of
from lance_df.engine.pruning.predicates import pruning_predicate_of_scans
from lance_df.scan.options import NO_STATISTICS
from lance_df.scan.request import ScanRequest
from lance_df.table.open import open_table
from lance_df.table.scan.plan import plan_scan

pytestmark = pytest.mark.engine

_ROWS = 6000
_TEXTS = [
    *["nothing of interest", "", None, "é" * 30, "special", "requests and special", "specialrequest"] * 9,
    "special packages, and requests",
    "SPECIAL requests",
    "100% special_requests\nof é",
]


@pytest.fixture(autouse=True)
def _with_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "COMPILED", True)


@pytest.fixture(scope="module", params=["0.1", "2.0", "2.1", "2.2"])
def contexts(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("words")
    rows = pa.table(
        {
            "id": pa.array(range(_ROWS), pa.int64()),
            "text": pa.array(
                [text and f"{number % 977} {text}" for number in range(_ROWS) for text in [_text(number)]]
            ),
            "coded": pa.array([_text(number) for number in range(_ROWS)]),
            "wide": pa.array([_text(number * 3) for number in range(_ROWS)], pa.large_string()),
        }
    )
    uri = str(root / "t.lance")
    lance_df.write_dataset(rows, uri, max_rows_per_file=2500, data_storage_version=request.param)
    lance_df.dataset(uri).delete("id % 10 = 3")
    memory = SessionContext()
    memory.register_record_batches("t", [lance_df.dataset(uri).to_table().to_batches()])
    return lance_df.connect(str(root)), memory, uri


def _text(number: int) -> str | None:
    return _TEXTS[number * 31 % len(_TEXTS)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM t WHERE text LIKE '%special%requests%' ORDER BY id",
        "SELECT count(*), max(wide), min(text) FROM t WHERE wide LIKE '%special_requests%' AND id > 50",
        "SELECT coded, count(*) FROM t WHERE coded LIKE '%quest%' GROUP BY coded ORDER BY coded",
        r"SELECT id FROM t WHERE coded LIKE '100\% %special%' ORDER BY id",
        "SELECT id FROM t WHERE text LIKE '%é_%' AND coded LIKE '%éé%' AND text > '5' ORDER BY id",
        "SELECT id FROM t WHERE text LIKE '%packages%' OR id < 20 ORDER BY id",
        "SELECT id FROM t WHERE coded NOT LIKE '%special%' OR coded ILIKE '%special requests' ORDER BY id",
        "SELECT a.id, b.text FROM t a LEFT JOIN t b ON a.id = b.id AND b.text LIKE '%packages%' ORDER BY 1",
        "SELECT id, l FROM (SELECT id, text AS l FROM t) WHERE l LIKE '%packages%' ORDER BY id LIMIT 7",
    ],
)
def test_answers_are_those_of_memory(contexts, query):
    ctx, memory, _ = contexts
    expected = memory.sql(query).to_pydict()
    assert len(next(iter(expected.values())))
    assert ctx.sql(query).to_pydict() == expected


@pytest.mark.parametrize(("name", "pattern"), [("text", "%special%requests%"), ("coded", "%packages, %")])
def test_scans_return_rows_with_the_words(contexts, name, pattern):
    ctx, _, uri = contexts
    table = open_table(uri)
    scans = logical_scans(optimized_plan_of(ctx.sql(f"SELECT id FROM t WHERE {name} LIKE '{pattern}'")))
    hint = pruning_predicate_of_scans(scans, table.arrow_schema)
    words = [word for word in pattern.split("%") if word]
    columns = ("id", name)

    def found(**options):
        tasks = plan_scan(table, ScanRequest(columns=columns, **options)).tasks
        return [row for task in tasks for batch in task.read() for row in batch.to_pylist()]

    everything = found()
    wanted = [row for row in everything if row[name] and all(word in row[name] for word in words)]
    in_order = [row for row in wanted if row[name].find(words[-1]) >= row[name].find(words[0])]
    assert 0 < len(in_order) < len(everything) / 10
    assert found(pruning_predicate=hint) == in_order
    assert found(pruning_predicate=hint, options=NO_STATISTICS) == everything
    assert found(pruning_predicate=hint, limit=20)[:20] == everything[:20]  # of each task

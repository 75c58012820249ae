"""Each switch of `ReadOptions` turns one fast path of file readers off, and changes no value."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import lance.file as lance_file
import numpy as np
import pyarrow as pa
import pytest

from lance_df.encodings.plan import RowRange
from lance_df.file.open import open_file
from lance_df.file.read_options import ReadOptions
from lance_df.file.v2 import columns_2_0, columns_2_1
from lance_df.file.v2.resident_column import ResidentColumn
from lance_df.storage.source import BytesSource
from tests.file.test_resident_pages import Fetched

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from lance_df.encodings.plan import Rows
    from lance_df.file.reader import FileReader

PAGE_ROWS = 8
NUM_PAGES = 40
ROWS = PAGE_ROWS * NUM_PAGES
OPTIONS = [ReadOptions(*each) for each in product((True, False), repeat=2)]


def make_table() -> pa.Table:
    rng = np.random.default_rng(3)
    numbers = np.arange(ROWS)
    holes = pa.array(numbers, mask=rng.random(ROWS) < 0.2)
    page = numbers // PAGE_ROWS
    texts = pa.array([f"é{number}" * int(number % 3) for number in rng.integers(0, 10**6, ROWS)])
    return pa.table(
        {
            "number": pa.array(rng.integers(0, 2**62, ROWS)),
            "some": pa.array(rng.integers(-9, 9, ROWS).astype(np.int16)).take(holes),
            "float": pa.array(rng.random(ROWS)),
            "flag": pa.array(rng.random(ROWS) < 0.5).take(holes),
            "text": texts.take(holes),
            "large": texts.cast(pa.large_binary()),
            "word": pa.array(["a", "bc", ""]).take(pa.array(numbers % 3)),
            "fixed": pa.array([bytes([number % 7, 1, 2]) for number in numbers.tolist()], pa.binary(3)),
            # the same value on a whole page
            "of_page": pa.array(page.astype(np.int32)),
            "nothing": pa.nulls(ROWS, pa.int32()),
            "vector": pa.array(rng.random((ROWS, 3)).tolist(), pa.list_(pa.float32(), 3)),
            "list": pa.array([list(range(number % 4)) for number in numbers.tolist()], pa.list_(pa.int32())),
            "lists": pa.array([[str(number)] * (number % 3) for number in numbers.tolist()]),
            "struct": pa.array([{"a": number, "b": f"{number}"} for number in numbers.tolist()]),
            "code": pa.array(["p", "q", "r"]).take(pa.array(numbers % 3)).dictionary_encode(),
        }
    )


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[pa.Table, bytes]:
    path: Path = tmp_path_factory.mktemp("pages") / "file.lance"
    table = make_table()
    options = {"version": request.param, "data_cache_bytes": 1}
    with lance_file.LanceFileWriter(str(path), table.schema, **options) as writer:
        for batch in table.to_batches(max_chunksize=PAGE_ROWS):
            writer.write_batch(batch)
    return table, path.read_bytes()


class Uses:
    """Counts the uses of the fast paths."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resident = self.runs = 0
        self._patch = monkeypatch
        for name in ("_page", "_make_reader", "take"):
            self._count(ResidentColumn, name, "resident")
        self._count(columns_2_0, "read_run", "runs")
        self._count(columns_2_1, "decode_run", "runs")

    def _count(self, owner: Any, name: str, counter: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            setattr(self, counter, getattr(self, counter) + 1)
            return function(*arguments, **options)

        self._patch.setattr(owner, name, counted)


def row_choices() -> list[Rows]:
    chosen = np.sort(np.random.default_rng(5).choice(ROWS, 150, replace=False))
    few = np.array([0, 1, ROWS - 1])
    within = RowRange(PAGE_ROWS + 1, 2 * PAGE_ROWS - 1)
    return [RowRange(0, ROWS), RowRange(3, ROWS - 5), within, RowRange(9, 9), chosen, few]


@pytest.mark.parametrize("source", [BytesSource, Fetched])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_and_types_are_the_same(
    stored: tuple[pa.Table, bytes], options: ReadOptions, source: type[BytesSource]
) -> None:
    table, data = stored
    reader = open_file(source("memory", data))
    fields = reader.schema.fields
    assert len(reader.page_starts([fields[0]])) == NUM_PAGES
    strings = [field for field in fields if field.arrow_type() == pa.string()]
    for rows in row_choices():
        for forms in ({}, {"views": strings}, {"keep_dictionaries": True, "views": strings}):
            arrays = reader.read(fields, rows, options=options, **forms)
            for field, array in zip(fields, arrays, strict=True):
                array.validate(full=True)
                whole = table[field.name].combine_chunks()
                is_range = isinstance(rows, RowRange)
                expected = whole.slice(rows.start, len(rows)) if is_range else whole.take(pa.array(rows))
                if not forms:
                    assert array.type == expected.type, field.name
                assert array.to_pylist() == expected.to_pylist(), (field.name, rows)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_fast_paths_are_used_if_they_are_on(
    stored: tuple[pa.Table, bytes], options: ReadOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, data = stored
    uses = Uses(monkeypatch)

    def used(reader: FileReader) -> tuple[bool, bool]:
        uses.resident = uses.runs = 0
        for rows in row_choices():
            reader.read(reader.schema.fields, rows, options=options)
        return bool(uses.resident), bool(uses.runs)

    mapped = open_file(BytesSource("memory", data))
    assert used(mapped) == (options.resident_columns, options.page_runs)
    # what one read has opened is not used by the next one
    mapped.read(mapped.schema.fields, RowRange(0, ROWS))
    assert used(mapped) == (options.resident_columns, options.page_runs)
    assert used(open_file(Fetched("memory", data))) == (False, options.page_runs)

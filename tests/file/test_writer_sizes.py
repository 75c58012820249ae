"""Files that ours writes are hardly larger than those of pylance, for columns of many kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.file import LanceFileWriter

from lance_df.file.v2.writer import FileWriter
from lance_df.format.schema import schema_from_arrow
from lance_df.storage import open_location
from lance_df.storage.sink import ByteSink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ROWS = 20_000
_LIMIT = 1.1
_SLACK_BYTES = 512
_WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "then", "some", "more"]


def _numbers(rng: np.random.Generator) -> Iterator[tuple[str, pa.Array]]:
    wide = rng.integers(-(2**62), 2**62, _ROWS)
    yield "random", pa.array(wide)
    yield "51 bits", pa.array(wide & (2**51 - 1))
    yield "small", pa.array(wide % 1000)
    yield "sorted", pa.array(1_700_000_000_000 + np.arange(_ROWS) * 37)
    yield "runs", pa.array(np.repeat(wide[: _ROWS // 50], 50))
    yield "few", pa.array(rng.choice(wide[:300], _ROWS))
    yield "constant", pa.array(np.full(_ROWS, 7))
    yield "floats", pa.array(rng.normal(size=_ROWS).astype(np.float32))
    yield "prices", pa.array(np.round(rng.random(_ROWS) * 100, 2))
    yield "float runs", pa.array(np.repeat(rng.normal(size=_ROWS // 100), 100))
    yield "booleans", pa.array(rng.random(_ROWS) < 0.5)
    yield "dates", pa.array(rng.integers(8000, 20_000, _ROWS).astype(np.int32)).cast(pa.date32())
    yield "few decimals", pa.array(rng.integers(0, 50, _ROWS)).cast(pa.decimal128(20, 0))
    yield "decimals", pa.array(rng.integers(0, 10**9, _ROWS)).cast(pa.decimal128(20, 0))


def _texts(rng: np.random.Generator) -> Iterator[tuple[str, pa.Array]]:
    pool = np.array([f"customer number {i}" for i in range(2000)])
    yield "few texts", pa.array(pool[rng.integers(0, 5, _ROWS)])
    yield "many texts", pa.array(pool[rng.integers(0, 2000, _ROWS)])
    yield "text runs", pa.array(np.repeat(pool[: _ROWS // 100], 100))
    yield "addresses", pa.array([f"user{i:08d}@example.com" for i in rng.integers(0, 10**8, _ROWS)])
    yield "hexadecimal", pa.array([rng.bytes(16).hex() for _ in range(_ROWS)])
    words = np.array(_WORDS)[rng.integers(0, len(_WORDS), (_ROWS, 9))]
    yield "sentences", pa.array([" ".join(row[: 3 + i % 7]) for i, row in enumerate(words.tolist())])
    yield "pages", pa.array([" ".join(_WORDS[i % 12 :] * (i % 40)) + str(i) for i in range(_ROWS // 20)])
    yield "bytes", pa.array([rng.bytes(20) for _ in range(_ROWS)])
    yield "large values", pa.array([f"line {i} of a file\n" * 5000 for i in range(20)], pa.large_string())


def _nested(rng: np.random.Generator) -> Iterator[tuple[str, pa.Array]]:
    ends = np.concatenate([[0], np.cumsum(rng.integers(0, 5, _ROWS))]).astype(np.int32)
    numbers = pa.array(rng.integers(0, 1000, int(ends[-1])))
    texts = pa.array(np.array(_WORDS)[rng.integers(0, 4, int(ends[-1]))])
    yield "lists", pa.ListArray.from_arrays(ends, numbers)
    yield "lists of texts", pa.ListArray.from_arrays(ends, texts)
    structs = pa.StructArray.from_arrays([numbers, texts], ["a", "b"], mask=pc.equal(numbers, 7))
    yield "lists of structs", pa.ListArray.from_arrays(ends, structs)
    yield "structs", structs[:_ROWS]
    yield "no lists", pa.array([[i] if i % 50 == 0 else [] for i in range(_ROWS)])
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=_ROWS * 4).astype(np.float32)), 4)
    yield "vectors", vectors
    yield "null vectors", pc.if_else(pa.array(rng.random(_ROWS) < 0.3), None, vectors)
    yield "dictionary", pa.array(np.array(_WORDS)[rng.integers(0, 9, _ROWS)]).dictionary_encode()


@pytest.fixture(scope="module")
def columns() -> dict[str, pa.Array]:
    rng = np.random.default_rng(0)
    found = {name: array for make in (_numbers, _texts, _nested) for name, array in make(rng)}
    for name in ("random", "small", "runs", "constant", "few", "floats", "few texts", "sentences"):
        for share in (0.01, 0.5, 0.97):
            missing = pa.array(rng.random(_ROWS) < share)
            found[f"{name}, {share:.0%} null"] = pc.if_else(missing, None, found[name])
    return found


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_files_are_hardly_larger_than_those_of_pylance(
    tmp_path: Path, columns: dict[str, pa.Array], version: str
) -> None:
    too_large = {}
    sizes = {"ours": 0, "theirs": 0}
    for name, column in columns.items():
        table = pa.table({"c": column})
        with LanceFileWriter(str(tmp_path / "theirs"), table.schema, version=version) as theirs:
            theirs.write_batch(table)
        ours = FileWriter(
            ByteSink(open_location(tmp_path / "ours")), schema_from_arrow(table.schema), version=version
        )
        for batch in table.to_batches():
            ours.write_batch(batch.columns)
        ours.finish()
        found = {writer: (tmp_path / writer).stat().st_size for writer in sizes}
        (tmp_path / "ours").unlink()
        for writer, size in found.items():
            sizes[writer] += size
        if found["ours"] > found["theirs"] * _LIMIT + _SLACK_BYTES:
            too_large[name] = found
    assert too_large == {}
    assert sizes["ours"] < sizes["theirs"]

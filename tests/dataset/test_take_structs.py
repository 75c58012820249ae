"""Takes return fields of structs in these, as pylance's do."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import ColumnNotFoundError

NUM_ROWS = 3_000
NAMES = ["x", "s", "s.a", "s.c", "s.c.d", "s.c.e", "s.`t u`", "l", "_rowid"]


def rows(*, nulls: bool) -> pa.Table:
    def struct(i: int) -> dict[str, Any] | None:
        if nulls and i % 7 == 3:
            return None
        inner = None if nulls and i % 5 == 1 else {"d": i * 2, "e": f"e{i}"}
        return {"a": i, "c": inner, "t u": f"text {i}"}

    inner = pa.struct([("d", pa.int64()), ("e", pa.string())])
    return pa.table(
        {
            "x": range(NUM_ROWS),
            "s": pa.array(
                map(struct, range(NUM_ROWS)), pa.struct([("a", pa.int32()), ("c", inner), ("t u", "string")])
            ),
            "l": [[{"p": i, "q": -i}] * (i % 3) for i in range(NUM_ROWS)],
        }
    )


@pytest.fixture(scope="module", params=["legacy", "2.0", "2.1", "2.2"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of several fragments with deleted rows, by pylance."""
    path = str(tmp_path_factory.mktemp("take") / "t.lance")
    table = rows(nulls=request.param in ("2.1", "2.2"))
    if request.param == "legacy":
        table = table.drop_columns("l")
    lance.write_dataset(table, path, max_rows_per_file=700, data_storage_version=request.param)
    lance.dataset(path).delete("x % 11 = 4")
    return path


def both(uri: str) -> tuple[Any, Any]:
    return lance.dataset(uri), lance_df.dataset(uri)


def test_columns_of_every_choice(uri: str) -> None:
    theirs, ours = both(uri)
    names = [name for name in NAMES if name in theirs.schema.names or name[0] in "s_"]
    choices = [list(each) for count in (1, 2, 3) for each in itertools.permutations(names, count)]
    for columns in random.Random(ours.data_storage_version).sample(choices, 40):  # others in each version
        for indices in ([2_000, 0, 5, 5], list(range(0, 2_700, 3))):
            assert ours.take(indices, columns=columns) == theirs.take(indices, columns=columns), columns


@pytest.mark.parametrize("columns", [["s.c.d", "x", "s.a"], ["s.c", "s.c.e"], ["s.a", "s.a"]])
def test_fragments_samples_and_row_ids(uri: str, columns: list[str]) -> None:
    theirs, ours = both(uri)
    theirs_first, ours_first = theirs.get_fragments()[1], ours.get_fragments()[1]
    found = ours_first.take([1, 3, 600], columns=columns)
    # theirs has the fields of a struct in the order asked for here
    assert found.to_pylist() == theirs_first.take([1, 3, 600], columns=columns).to_pylist()
    assert ours_first.open_session(columns).take([1, 3, 600]) == found
    assert ours.sample(40, columns).schema == theirs.sample(40, columns).schema
    ids = ours.to_table([], with_row_id=True)["_rowid"].to_pylist()[100:900:7]
    assert ours._take_rows(ids, columns) == theirs._take_rows(ids, columns)


def test_a_scan_returns_them_as_columns(uri: str) -> None:
    theirs, ours = both(uri)
    assert ours.to_table(["s.a", "s.c.d"]) == theirs.to_table(["s.a", "s.c.d"])
    assert ours.take([0], columns={"q": "s.a"}) == theirs.take([0], columns={"q": "s.a"})


def test_a_field_that_is_not_there(uri: str) -> None:
    with pytest.raises(
        ColumnNotFoundError, match=r"column 's\.zz' does not exist; the fields of 's' are 'a', 'c'"
    ):
        lance_df.dataset(uri).take([0], columns=["s.zz"])


@pytest.mark.parametrize(
    "columns",
    [
        ["`Cap Col`"],
        ["`Cap Col`", "a", "Cap Col"],
        ["`s`", "`Cap Col`", "s.`f`", "`Cap Col`"],
        ["`_rowid`", "`a`", "_rowid"],
    ],
    ids=str,
)
def test_columns_in_backquotes(tmp_path: Path, columns: list[str]) -> None:
    data = pa.table({"a": [3, 1], "Cap Col": [1, 2], "s": [{"f": 1, "g": 2}] * 2})
    lance.write_dataset(data, tmp_path)
    theirs, ours = both(str(tmp_path))
    assert ours.take([1, 0], columns) == theirs.take([1, 0], columns)
    assert ours._take_rows([1, 0], columns) == theirs._take_rows([1, 0], columns)
    assert ours.to_table(["`Cap Col`"]) == theirs.to_table(["`Cap Col`"])
    first, expected = ours.get_fragments()[0], theirs.get_fragments()[0]
    assert first.take([1], ["`Cap Col`", "a"]) == expected.take([1], ["`Cap Col`", "a"])

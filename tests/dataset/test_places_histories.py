"""Random histories of tables that share files: branches, clones and base paths, changed by both libraries.

Every table is held against a dict from key to value, read with both libraries, whole and filtered.
"""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df import DatasetBasePath

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAX_TABLES = 6


class Histories:
    """Tables, what should be in them, and the next thing to happen to one of them."""

    def __init__(self, folder: Path, seed: int, **options: Any) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.next_key = 0
        self.num_made = 0
        rows = self.new_rows(20)
        bases = [
            DatasetBasePath(str(folder / "hot"), "hot"),
            DatasetBasePath(str(folder / "cold"), "cold", is_dataset_root=True),
        ]
        made = lance_df.write_dataset(
            rows, folder / "t", initial_bases=bases, target_all_bases=True, max_rows_per_file=4, **options
        )
        self.tables = {made.uri: dict(zip(*rows.to_pydict().values(), strict=True))}

    def new_rows(self, count: int) -> pa.Table:
        keys = range(self.next_key, self.next_key + count)
        self.next_key += count
        return pa.table({"a": keys, "b": [key % 7 for key in keys]})

    def step(self) -> None:
        uri = self.random.choice(list(self.tables))
        library = self.random.choice([lance_df, lance])
        steps: list[Callable[[Any, str], None]] = [
            *(self.append, self.delete, self.update, self.merge, self.compact, self.index, self.columns),
            *(self.move, self.branch, self.shallow_clone, self.deep_clone),
        ]
        step = self.random.choice(steps)
        step(library.dataset(uri), uri)
        for each in {uri, self.random.choice(list(self.tables))}:
            self.check(each, f"after {step.__name__} by {library.__name__}")

    def check(self, uri: str, when: str) -> None:
        expected = self.tables[uri]
        wanted = self.random.randrange(7)
        for library in (lance_df, lance):
            data = library.dataset(uri)
            found = data.to_table(columns=["a", "b"]).to_pydict()
            assert dict(zip(found["a"], found["b"], strict=True)) == expected, (uri, when)
            assert len(found["a"]) == data.count_rows() == len(expected), (uri, when)
            keys = data.to_table(columns=["a"], filter=f"b = {wanted}")["a"].to_pylist()
            assert sorted(keys) == sorted(a for a, b in expected.items() if b == wanted), (uri, when)
        lance.dataset(uri).validate()

    # -- what can happen ------------------------------------------------------------------------------------

    def append(self, data: Any, uri: str) -> None:
        rows = self.new_rows(self.random.randint(1, 9))
        options = self.random.choice([{}, {"target_all_bases": True}])
        library = lance_df if isinstance(data, lance_df.LanceDataset) else lance
        library.write_dataset(rows, data, mode="append", max_rows_per_file=4, **options)
        self.tables[uri].update(zip(*rows.to_pydict().values(), strict=True))

    def delete(self, data: Any, uri: str) -> None:
        value, least = self.random.randrange(7), self.random.randrange(self.next_key)
        data.delete(f"b = {value} and a > {least}")
        kept = {a: b for a, b in self.tables[uri].items() if b != value or a <= least}
        self.tables[uri] = kept

    def update(self, data: Any, uri: str) -> None:
        value, limit = self.random.randrange(7), self.random.randrange(self.next_key)
        data.update({"b": "b + 1"}, where=f"b = {value} and a < {limit}")
        rows = self.tables[uri]
        rows.update({a: b + 1 for a, b in rows.items() if b == value and a < limit})

    def merge(self, data: Any, uri: str) -> None:
        keys = self.random.sample(range(self.next_key + 3), 5)
        rows = pa.table({"a": keys, "b": [0] * 5})
        data.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(rows)
        self.tables[uri].update(dict.fromkeys(keys, 0))
        self.next_key = max(self.next_key, max(keys) + 1)

    def compact(self, data: Any, uri: str) -> None:
        data.optimize.compact_files(target_rows_per_fragment=8)

    def index(self, data: Any, uri: str) -> None:
        data.create_scalar_index("b", "ZONEMAP", replace=True)

    def columns(self, data: Any, uri: str) -> None:
        data.add_columns({"c": "a * 2"})
        (lance_df if isinstance(data, lance.LanceDataset) else lance).dataset(uri).drop_columns(["c"])

    def move(self, data: Any, uri: str) -> None:
        table = lance_df.dataset(uri)
        paths = [base.path for base in table.base_paths().values() if "/moved" not in base.path]
        if paths:
            path = self.random.choice(paths)
            self.num_made += 1
            new = str(self.folder / f"moved {self.num_made}")
            shutil.copytree(path, new, dirs_exist_ok=True)
            table.rebase_paths({path: new})

    def branch(self, data: Any, uri: str) -> None:
        self._made(uri, lambda name: data.create_branch(f"some/{name}"))

    def shallow_clone(self, data: Any, uri: str) -> None:
        self._made(uri, lambda name: data.shallow_clone(str(self.folder / name), data.version))

    def deep_clone(self, data: Any, uri: str) -> None:
        # pylance looks for files in a folder that base paths which are no roots do not have
        ours = lance_df.dataset(uri)
        self._made(uri, lambda name: ours.deep_clone(str(self.folder / name), ours.version))

    def _made(self, uri: str, make: Callable[[str], Any]) -> None:
        if len(self.tables) < MAX_TABLES:
            self.num_made += 1
            made = make(f"table{self.num_made}")
            self.tables[made.uri] = dict(self.tables[uri])


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (1, {"data_storage_version": "2.0"}),
        (4, {"data_storage_version": "2.2", "enable_stable_row_ids": True}),
    ],
)
def test_histories_of_tables_that_share_files(tmp_path: Path, seed: int, options: dict[str, Any]) -> None:
    histories = Histories(tmp_path, seed, **options)
    for _ in range(20):
        histories.step()
    for uri in histories.tables:
        histories.check(uri, "at the end")

"""Leaving a dataset, a namespace or a session frees its cache; the logger says what was done."""

from __future__ import annotations

import datetime as dt
import logging
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import ConflictError, InvalidInputError

pytestmark = pytest.mark.engine

ROWS = pa.table({"a": range(2_000), "p": [n % 3 for n in range(2_000)]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    lance_df.PartitionedNamespace.create(tmp_path / "n", ROWS.schema, ["p"]).append(ROWS)
    return tmp_path


def test_leaving_frees_what_is_cached(folder: Path) -> None:
    with lance_df.dataset(folder / "t.lance") as ds:
        assert ds.to_table(filter="a > 5").num_rows == 1_994
        assert ds._table.shared.cache.statistics().num_bytes > 0
    assert ds._table.shared.cache.statistics().num_bytes == 0
    with lance_df.PartitionedNamespace.open(folder / "n") as namespace:
        assert namespace.to_table(filter="a > 5").num_rows == 1_994
        assert namespace._table.cache.statistics().num_bytes > 0
    assert namespace._table.cache.statistics().num_bytes == 0
    assert ds.to_table().equals(ROWS)
    assert namespace.to_table().sort_by("a").equals(ROWS)
    namespace.delete("a > 5")
    assert namespace.count_rows() == 6


def test_leaving_after_an_error_too(folder: Path) -> None:
    ds = lance_df.dataset(folder / "t.lance")
    with pytest.raises(InvalidInputError), ds:
        ds.to_table(filter="a > ")
    assert ds._table.shared.cache.statistics().num_bytes == 0


def test_sessions_free_the_caches_of_their_tables(folder: Path) -> None:
    namespace = lance_df.PartitionedNamespace.open(folder / "n")
    with lance_df.connect(folder) as ctx:
        ctx.register_table("own", namespace)
        query = (
            "SELECT (SELECT count(*) FROM t WHERE a > 5) AS t, (SELECT count(*) FROM own WHERE a > 5) AS own"
        )
        answer = ctx.sql(query).to_pylist()
        assert namespace._table.cache.statistics().num_bytes > 0
    assert namespace._table.cache.statistics().num_bytes == 0
    assert ctx.sql(query).to_pylist() == answer == [{"t": 1_994, "own": 1_994}]


def test_commits_conflicts_and_clean_ups_are_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lance_df")
    ds, other = (lance_df.dataset(folder / "t.lance") for _ in range(2))
    ds.update({"a": "a + 1"}, where="a = 7")
    assert f"{folder}/t.lance: committed version 2 (Update)" in caplog.messages
    ds.delete("a = 8")
    other.delete("a = 1999")  # is made again on top of the others
    late = lance_df.dataset(ds.uri)
    lance_df.dataset(ds.uri).update({"a": "a + 1"}, where="a = 20")
    late.update({"a": "a + 1"}, where="a = 20 OR a = 21")
    assert [text for text in caplog.messages if "computing the change again from version" in text]
    operation = lance_df.LanceOperation.Overwrite(ROWS.schema, [])
    lance_df.LanceDataset.commit(ds.uri, operation, read_version=ds.version)
    with pytest.raises(ConflictError):
        lance_df.LanceDataset.commit(
            ds.uri, lance_df.LanceOperation.Delete([], [], "a = 1"), read_version=ds.version
        )
    assert [text for text in caplog.messages if text.startswith("conflict: ")]
    lance_df.dataset(ds.uri).cleanup_old_versions(older_than=dt.timedelta(0))
    assert [text for text in caplog.messages if "cleaned up" in text and "old_versions=" in text]


def test_a_commit_of_a_namespace_is_one_line(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lance_df")
    lance_df.PartitionedNamespace.open(folder / "n").append(ROWS)
    assert len([text for text in caplog.messages if "committed version" in text]) == 1


def test_plans_are_logged_as_details(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "lance_df")
    lance_df.PartitionedNamespace.open(folder / "n").to_table(filter="p = 1")
    assert [text for text in caplog.messages if "planned a scan of 1 of 3 partitions" in text]
    lance_df.connect(folder).sql("SELECT count(*) FROM t WHERE a > 7").to_pylist()
    assert [text for text in caplog.messages if text.startswith("planned a statement over 1 tables: SELECT")]


def test_nothing_is_printed_by_default(tmp_path: Path) -> None:
    code = f"""
import datetime as dt, logging, pyarrow as pa, lance_df
ds = lance_df.write_dataset(pa.table({{"a": [1, 2]}}), {str(tmp_path / "t.lance")!r})
ds.delete("a = 1")
ds.cleanup_old_versions(older_than=dt.timedelta(0))
assert any(isinstance(each, logging.NullHandler) for each in logging.getLogger("lance_df").handlers)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

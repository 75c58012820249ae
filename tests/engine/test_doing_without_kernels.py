"""Processes that read little do without kernels, also for large windows, and answer the same."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.encodings import kernels

_COUNT = 9000
_FILTERS = [
    "id >= 0",
    "id < 8990",
    "id = 77",
    "value < 1",
    "value = 0.0",
    "price > 10.5",
    "day <= DATE '2020-02-20'",
    "name = 'é'",
    "name > 'a'",
    "text LIKE '1%'",
    "flag",
]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    random = np.random.default_rng(5)
    few = ["é", "", None, "a" * 40, "twelve bytes"]
    values = [0.0, -0.0, float("nan"), None, 1.5]
    day = dt.date(2020, 1, 1)
    rows = pa.table(
        {
            "id": np.arange(_COUNT),
            "value": pa.array([values[place] for place in random.integers(0, 5, _COUNT)], pa.float64()),
            "price": pa.array([Decimal(int(cents)) / 100 for cents in random.integers(-500, 5000, _COUNT)]),
            "day": [day + dt.timedelta(int(days)) for days in random.integers(0, 60, _COUNT)],
            "name": [few[place] for place in random.integers(0, 5, _COUNT)],
            "text": [f"{number}-ü" for number in random.integers(0, 10**6, _COUNT)],
            "flag": pa.array([None if number % 7 == 0 else number % 2 == 0 for number in range(_COUNT)]),
        }
    )
    root = tmp_path_factory.mktemp("kernels")
    for version in ("2.0", "2.2"):
        name = version.replace(".", "_")
        lance_df.write_dataset(rows, root / f"v{name}.lance", data_storage_version=version)
        lance_df.dataset(root / f"v{name}.lance").delete("id = 5 OR id = 8000")
    return lance_df.connect(root)


@pytest.mark.parametrize("table", ["v2_0", "v2_2"])
@pytest.mark.parametrize("text", _FILTERS)
def test_answers_are_the_same(session, monkeypatch, table, text):
    asked = f"SELECT * FROM {table} WHERE {text}"
    wanted = session.sql(asked).to_arrow_table()
    monkeypatch.setattr(kernels, "are_worth", lambda _: False)
    found = session.sql(asked).to_arrow_table()
    assert found.schema == wanted.schema
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))


@pytest.mark.parametrize(("kept", "many"), [(True, 500), (False, 1000)])
def test_kernels_are_worth_it_when_much_has_been_read(monkeypatch, kept, many):
    monkeypatch.setattr(kernels, "_spared", 0)
    monkeypatch.setattr(kernels, "_MANY", 1000)
    monkeypatch.setattr(kernels, "_MANY_BEFORE_LOADING", 500)
    monkeypatch.setattr(kernels, "_are_kept", lambda: kept)
    monkeypatch.setattr(kernels, "are_loaded", lambda: False)
    assert [kernels.are_worth(many // 2) for _ in range(4)] == [False, False, True, True]
    monkeypatch.setattr(kernels, "are_loaded", lambda: True)
    monkeypatch.setattr(kernels, "_spared", 0)
    assert kernels.are_worth(1)


def test_a_new_process_reads_windows_without_numba(session, tmp_path):
    rows = pa.table({"id": np.arange(_COUNT), "name": ["a", "bc", "é"] * (_COUNT // 3)})
    lance_df.write_dataset(rows, tmp_path / "t.lance", data_storage_version="2.0")
    code = (
        "import sys, lance_df\n"
        "text = 'SELECT name, count(*) FROM t WHERE id >= 10 GROUP BY name'\n"
        "assert lance_df.connect(sys.argv[1]).sql(text).to_arrow_table().num_rows == 3\n"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)

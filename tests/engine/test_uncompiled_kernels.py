"""Where kernels are not compiled, answers are the same."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

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
def root(tmp_path_factory):
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
    return root


_CODE = """
import sys, lance_df
from lance_df.encodings import kernels
assert not kernels.COMPILED
session = lance_df.connect(sys.argv[1])
for query in sys.argv[2:]:
    table = session.sql(query).to_arrow_table()
    print(table.schema, table.to_pylist())
"""


def test_answers_are_the_same(root):
    queries = [f"SELECT * FROM {table} WHERE {text}" for table in ("v2_0", "v2_2") for text in _FILTERS]
    queries += ["SELECT name, count(*) AS n, min(price) FROM v2_2 WHERE id > 9 GROUP BY name ORDER BY name"]
    session = lance_df.connect(root)
    found = subprocess.run(
        [sys.executable, "-c", _CODE, str(root), *queries],
        env={**os.environ, "LANCE_DF_KERNELS": "python"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    tables = [session.sql(query).to_arrow_table() for query in queries]
    assert found.stdout == "".join(f"{table.schema} {table.to_pylist()}\n" for table in tables)


@pytest.mark.parametrize("build", ["avx512", "avx2", "base"])
def test_a_build_that_is_asked_for_has_the_kernels_of_lesser_ones_too(build):
    code = """
from importlib.util import find_spec
from pathlib import Path
from lance_df.encodings import kernels
for name in ("lookup", "gather", "_cyutility"):
    print(Path(find_spec(f"{kernels.__name__}.{name}").origin).parent.name)
"""
    if not (Path(kernels.__file__).parent / "compiled" / build).is_dir():
        pytest.skip("this processor has no such build")
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "LANCE_DF_KERNELS": build},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert found.stdout.split() == [build, "base", "base"]


def test_the_remedy_is_named_once():
    code = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    import lance_df.dataset, lance_df.engine\n"
        "    from lance_df.encodings.kernels import pages, gather\n"
        "print([str(each.message) for each in caught if 'kernels' in str(each.message)])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LANCE_DF_KERNELS": "none"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert found.stdout.count("not compiled") == 1
    assert "run 'python setup.py build_ext --inplace'" in found.stdout

"""Filters that compare two columns hold floats for what DataFusion holds them: NaNs have their places."""

import itertools

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.engine.pruning.residual import ResidualFilter

pytestmark = pytest.mark.engine

_NEGATIVE_NAN = float(np.uint64(0xFFF8 << 48).view(np.float64))
_FLOATS = [None, _NEGATIVE_NAN, -np.inf, -1.5, 0.0, 5e-324, 2.5, np.inf, np.nan]
_COMPARISONS = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "=": pc.equal,
    "<>": pc.not_equal,
}


@pytest.mark.parametrize("sign", _COMPARISONS)
@pytest.mark.parametrize("right", ["g", "h", "-1e300"])
def test_floats_compare_as_datafusion_compares_them(sign, right):
    left, other = zip(*itertools.product(_FLOATS, _FLOATS), strict=True)
    rows = pa.table(
        {
            "id": range(len(left)),
            "f": pa.array(left, pa.float64()),
            "g": pa.array(other, pa.float64()),
            "h": pa.array(other, pa.float64()).cast(pa.float32(), safe=False),
        }
    )
    engine = datafusion.SessionContext()
    engine.from_arrow(rows, name="t")
    expected = engine.sql(f"SELECT id FROM t WHERE f {sign} {right} ORDER BY id").to_arrow_table()
    term = pc.scalar(-1e300) if right == "-1e300" else pc.field(right)
    (batch,) = rows.to_batches()
    found = ResidualFilter(_COMPARISONS[sign](pc.field("f"), term)).apply(batch)
    assert found["id"].to_pylist() == expected["id"].to_pylist()


@pytest.mark.parametrize("sign", _COMPARISONS)
def test_columns_of_nulls_compare_as_null(tmp_path, sign):
    rows = pa.table({"id": [1, 2], "n": pa.nulls(2), "m": pa.nulls(2)})
    dataset = lance_df.write_dataset(rows, tmp_path / "t.lance")
    assert dataset.count_rows(f"n {sign} m") == 0
    assert dataset.count_rows(f"n {sign} n OR id = 1") == 1
    assert dataset.count_rows(f"(n {sign} m) IS NULL") == 2

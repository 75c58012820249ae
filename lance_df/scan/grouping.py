"""Group rows by columns with pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.interrupts import imports_finished

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


def grouped(table: pa.Table, keys: Sequence[str], *, use_threads: bool = True) -> pa.TableGroupBy:
    """Group rows. The first call imports modules, which a SIGINT does not interrupt."""
    with imports_finished():
        import pyarrow.acero  # noqa: F401 - pyarrow would import it otherwise
    return table.group_by(list(keys), use_threads=use_threads)

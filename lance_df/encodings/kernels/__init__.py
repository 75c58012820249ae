"""Compiled loops over single values; arrays are passed as typed memoryviews.

Every kernel checks positions that come from a file against the length of the array that it reads or writes,
or its docstring says what the caller must have checked. Kernels that may meet broken bytes return the number
of the first broken chunk, value or row, or -1 if there is none.
"""

from __future__ import annotations

import os
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lance_df.encodings.kernels.builds import search_path

# a compiled module is found before its source
__path__ = search_path(Path(__file__).parent, __spec__.loader)

_SPEC = find_spec(f"{__name__}.fastlanes")
COMPILED: Final = _SPEC is not None and not str(_SPEC.origin).endswith(".py")
"""Whether kernels are compiled. If not, code that can use numpy instead should, since that is faster."""

if not COMPILED and os.environ.get("LANCE_DF_KERNELS") != "python":
    _checkout = Path(__file__).parents[3]
    _remedy = (
        f"lance_df is imported from the checkout {_checkout}: start Python in another folder to import the "
        "installed package, or run 'python setup.py build_ext --inplace' there"
        if Path(_checkout, "setup.py").is_file()
        else "install a C compiler or the package ziglang, then reinstall lance_df"
    )
    warnings.warn(
        f"the kernels of lance_df are not compiled, so reading is slow; {_remedy}",
        RuntimeWarning,
        stacklevel=2,
    )

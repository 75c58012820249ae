"""Compiled loops over bytes, shared by the decoders; loaded or compiled when they are first called (`calls`).

Every kernel checks positions that come from a file against the length of the array it reads or writes, or
says in its docstring what the caller must have checked. Kernels that can meet broken bytes return the
number of the first broken chunk, value or row, and -1 when there is none.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

_MODULES = {
    **dict.fromkeys(["add_up_runs", "find_runs"], "run_sums"),
    **dict.fromkeys([f"unpack_blocks_{bits}" for bits in (8, 16, 32, 64)], "bitpacking"),
    "expand_runs": "runs",
    "chunk_buffers": "chunks",
    "expand_strings": "chunk_rows",
    "find_strings": "chunk_rows",
    "copy_spans": "spans",
    "gather_variable": "variable",
    "copy_between": "gather",
    "find_words_32": "words",
    "find_words_64": "words",
    "floats_within": "compare",
    "gather_bits": "gather",
    "gather_padded": "gather",
    "gather_pairs": "gather",
    "gather_spans": "gather",
    "gather_words": "gather",
    "look_up_pairs": "gather",
    "look_up_truth": "compare",
    "marked_positions": "keys",
    "mask_positions": "gather",
    "mix_words": "keys",
    "near_positions": "keys",
    "numbers_within": "compare",
    "pairs_within": "compare",
    "rare_positions": "gather",
    "string_views": "views",
    "strings_equal": "compare",
    "extreme_strings": "string_bounds",
    "sum_lengths": "gather",
    **dict.fromkeys([f"gather_scattered_{bits}" for bits in (8, 16, 32, 64)], "scattered"),
    "gather_scattered_pairs": "scattered",
    "join_variable": "variable",
    "expand_fsst": "fsst",
    "encode_fsst": "fsst_encode",
    "count_fsst": "fsst_encode",
    **dict.fromkeys([f"pack_blocks_{bits}" for bits in (8, 16, 32, 64)], "pack"),
    "pick_rows": "picked_rows",
    "read_ends_32": "ends",
    "read_ends_64": "ends",
    "view_ends": "ends",
    **dict.fromkeys([f"look_up_{bits}" for bits in (8, 16, 32, 64)], "lookup"),
    **dict.fromkeys([f"read_packed_{bits}" for bits in (8, 16, 32, 64)], "page_rows"),
    **dict.fromkeys([f"read_runs_{bits}" for bits in (8, 16, 32, 64)], "page_runs"),
    "read_codes_32": "page_codes",
    "read_codes_64": "page_codes",
    "read_flat": "page_rows",
    "read_strings_32": "page_strings",
    "read_strings_64": "page_strings",
    "read_valid": "page_levels",
    "read_views": "page_strings",
    "room_for_strings": "page_strings",
    "split_byte_streams": "byte_streams",
    "xxhash64_spans": "xxhash",
    **dict.fromkeys(["decimal_bytes", "hash_bytes", "hash_words"], "murmur3"),
    "parse_fixed_records": "full_zip",
    "parse_variable_records": "full_zip",
    "parse_packed_rows": "full_zip",
}


# To do without kernels for so many values takes about half as long as to import numba, and for so many before
# kept code is loaded twice as long as that: what has come so far mostly goes on.
_MANY = 60_000_000
_MANY_BEFORE_LOADING = 20_000_000
_spared = 0


def are_worth(num_values: int) -> bool:
    """Return whether to use a kernel for so many values where there is another way, as fast for few.

    A process that reads little never loads one; one that reads much does so when it has come that far.
    """
    global _spared  # noqa: PLW0603 - of the process; that threads lose some counts does no harm
    if are_loaded():
        return True
    _spared += num_values
    return _spared > _MANY_BEFORE_LOADING and (_spared > _MANY or _are_kept())


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view that may not be written to: what kernels only read they are compiled for as such."""
    view = array.view()
    view.flags.writeable = False
    return view


def are_loaded() -> bool:
    """Return whether code has been loaded or numba imported, so that a kernel costs no more than its work."""
    return "numba" in sys.modules or f"{__name__}.loaded_code" in sys.modules


@cache
def _are_kept() -> bool:
    from lance_df.encodings.kernels.calls import kept_code

    kept = kept_code()
    return kept is not None and kept.has_any()


def __getattr__(name: str) -> Callable[..., Any]:
    if (module := _MODULES.get(name)) is None:
        raise AttributeError(name)
    from lance_df.encodings.kernels.calls import caller

    # threads that come at once use one caller
    return globals().setdefault(name, caller(name, module))

"""Integers of other libraries, and what is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lance_df.records import as_integer, plain


@pytest.mark.parametrize("value", [7, np.int8(7), np.int64(7), np.uint64(7)], ids=repr)
def test_integers_of_any_library(value: Any) -> None:
    assert (as_integer(value), plain(value)) == (7, 7)
    assert type(as_integer(value)) is type(plain(value)) is int


@pytest.mark.parametrize("value", [True, np.True_, 7.0, np.float64(7), "7", None, [7], np.ones(2)], ids=repr)
def test_other_values_are_none(value: Any) -> None:
    assert as_integer(value) is None
    assert plain(value) is value

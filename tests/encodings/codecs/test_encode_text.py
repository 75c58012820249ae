"""Symbols of a column are found once for several small pages, as long as they do for these."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.encodings.codecs import encode_text as text
from lance_df.encodings.fsst.train import train_symbols

_WORDS = {
    "english": ["the", "quick", "brown", "foxes", "jumped", "over", "lazy", "dogs"],
    "other": ["0x1f", "9c3e", "77aa", "b0b0", "e4d2", "5a5a", "c001", "d00d"],
}


def _texts(kind: str, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    return pa.array([" ".join(rng.choice(_WORDS[kind], 9)) + str(number) for number in range(2000)])


def test_former_symbols_are_used_until_they_do_not_do(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []
    monkeypatch.setattr(text, "_former", {})
    monkeypatch.setattr(text, "_USES", 3)
    monkeypatch.setattr(
        text, "train_symbols", lambda *args: trained.append(len(written)) or train_symbols(*args)
    )
    written: list[pa.Array] = []
    for number, kind in enumerate(["english"] * 6 + ["other"] * 2 + ["english"]):
        written.append(_texts(kind, number))
        lance_df.write_dataset(pa.table({"t": written[-1]}), str(tmp_path), mode="append")
    # the first, after three uses, and whenever the texts are of the other kind
    assert trained == [1, 5, 7, 9]
    found = lance_df.dataset(str(tmp_path)).to_table()
    assert found["t"].combine_chunks().equals(pa.concat_arrays(written))

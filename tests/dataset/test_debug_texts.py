"""Texts of `lance_df.debug` beside those of pylance."""

from __future__ import annotations

from pathlib import Path

import lance
import lance.debug
import pyarrow as pa
import pytest

import lance_df

# what pylance shows of a field, and we do not
_THEIRS_ALONE = ("encoding", "Plain", "VarBinary", "),", "unenforced_clustering_key_position")


def test_a_schema_is_shown_as_pylance_does(tmp_path: Path) -> None:
    ours = lance_df.write_dataset(pa.table({"x": [1], "s": [{"a": "é"}]}), tmp_path / "t")
    expected = lance.debug.format_schema(lance.dataset(ours.uri)).splitlines()
    found = lance_df.debug.format_schema(ours).splitlines()
    assert found[:8] == expected[:8]
    left = [line for line in expected if not line.strip().startswith(_THEIRS_ALONE)]
    assert [line for line in found if not line.strip().startswith(_THEIRS_ALONE)] == left


def test_fragments_and_transactions(tmp_path: Path) -> None:
    dataset = lance_df.write_dataset(pa.table({"x": range(10)}), tmp_path / "t")
    dataset.add_columns({"y": "x + 1"})
    dataset.delete("x = 5")
    manifest = lance_df.debug.format_manifest(dataset)
    assert manifest.startswith("Manifest {\n    version: 3,\n")
    assert "fragments: [\n        Fragment {\n            id: 0," in manifest
    fragment = lance_df.debug.format_fragment(dataset.get_fragments()[0].metadata, dataset)
    first, second = fragment.split("PrettyPrintableDataFile {")[1:]
    assert 'name: "x"' in first
    assert 'name: "y"' not in first
    assert 'name: "y"' in second
    assert "num_deleted_rows: 1," in fragment
    kinds = [text.split("operation: ")[1].split(" ")[0] for text in lance_df.debug.list_transactions(dataset)]
    assert kinds == ["Delete", "Merge", "Overwrite"]
    assert len(lance_df.debug.list_transactions(dataset, 2)) == 2
    with pytest.raises(lance_df.InvalidInputError, match="max_transactions must be at least 1, got 0"):
        lance_df.debug.list_transactions(dataset, 0)

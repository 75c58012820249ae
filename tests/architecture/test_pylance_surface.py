"""What programs written for pylance find here: the public names, and the arguments that go by their names."""

from __future__ import annotations

import inspect

import lance
import pytest

import lance_df
from lance_df.refs import Branches, Tags
from lance_df.scanner import LanceScanner

# vector and full-text indices, write-ahead logs, blobs and sessions, and figures of pylance's own machinery
NOT_OFFERED = {
    *("all_files", "centroids", "commit_existing_index_segments", "create_index", "create_index_uncommitted"),
    *("delta", "drop", "from_pydantic_model", "get_ivf_model", "initial_storage_options"),
    *("initialize_mem_wal", "io_stats_incremental", "io_stats_snapshot", "latest_storage_options"),
    *("mem_wal_index_details", "mem_wal_writer", "merge_existing_index_segments", "merge_index_metadata"),
    *("migrate_manifest_paths_v2", "new_file_session", "open_session", "prewarm_index", "read_blob_ranges"),
    *("read_blobs", "remap_row_addrs", "session", "sql", "stats", "storage_options_accessor", "take_blobs"),
    *("tracked_files", "version_refs"),
}
ARGUMENTS_NOT_TAKEN = {
    "LanceDataset.update": {"data_storage_version"},
    "LanceFragment.create": {"namespace_client", "table_id", "session"},
}
CLASSES = {
    "LanceDataset": (lance.LanceDataset, lance_df.LanceDataset),
    "LanceFragment": (lance.LanceFragment, lance_df.LanceFragment),
    "LanceScanner": (lance.LanceScanner, LanceScanner),
    "Tags": (inspect.getmodule(lance.LanceDataset).Tags, Tags),  # type: ignore[union-attr]
    "Branches": (inspect.getmodule(lance.LanceDataset).Branches, Branches),  # type: ignore[union-attr]
}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("name", CLASSES)
def test_names(name: str) -> None:
    theirs, ours = CLASSES[name]
    assert public(theirs) - public(ours) <= NOT_OFFERED
    for each in public(theirs) & public(ours):
        kinds = [isinstance(inspect.getattr_static(kind, each), property) for kind in (theirs, ours)]
        assert kinds[0] == kinds[1], each


@pytest.mark.parametrize("name", CLASSES)
def test_arguments(name: str) -> None:
    theirs, ours = CLASSES[name]
    for each in public(theirs) & public(ours):
        method = getattr(theirs, each)
        if not callable(method):
            continue
        mine = inspect.signature(getattr(ours, each)).parameters
        takes_more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in mine.values())
        given = [
            argument
            for argument, parameter in inspect.signature(method).parameters.items()
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        ]
        missing = set() if takes_more else set(given) - mine.keys()
        assert missing <= ARGUMENTS_NOT_TAKEN.get(f"{name}.{each}", set()), each
        # those that both name stand in the same order
        shared = [argument for argument in given if argument in mine]
        assert [argument for argument in mine if argument in shared] == shared, each


def test_opening() -> None:
    mine, theirs = (inspect.signature(library.dataset).parameters for library in (lance_df, lance))
    tuning = {"metadata_cache_size_bytes", "index_cache_size_bytes", "read_params", "session"}
    assert theirs.keys() - mine.keys() == tuning
    for name in tuning:
        with pytest.raises(lance_df.DatasetNotFoundError):
            lance_df.dataset("/nowhere", **{name: None})

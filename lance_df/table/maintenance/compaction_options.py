"""The options of a compaction: from arguments, or else the table's configuration, or else the defaults."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lance_df.arguments import checked_flag, checked_integer, checked_items
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.records import as_integer, dataclass

if TYPE_CHECKING:
    from lance_df.table.table import Table

CONFIG_PREFIX = "lance.compaction."
REENCODE = "reencode"
TRY_BINARY_COPY = "try_binary_copy"
FORCE_BINARY_COPY = "force_binary_copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """The options of a compaction, with the names and defaults of pylance.

    Attributes
    ----------
    target_rows_per_fragment
        Fragments with fewer rows are merged with their neighbours until this number of rows is reached.
    max_rows_per_group
        The number of rows of a group in 0.1 files.
    max_bytes_per_file
        The size after which a new file is started, in addition to the limit in rows; ``None`` for the default
        of writes.
    materialize_deletions, materialize_deletions_threshold
        Whether fragments are always rewritten if the share of their deleted rows exceeds the threshold.
    defer_index_remap
        True is refused: this release writes no fragment reuse index.
    num_threads
        The number of tasks that run at the same time. The default is one for each core.
    batch_size
        The number of rows that are read at a time; ``None`` for the default of scans.
    compaction_mode
        - ``"reencode"``: decode and encode all values.
        - ``"try_binary_copy"``: copy pages wherever this results in the same rows.
        - ``"force_binary_copy"``: copy pages, and fail where this does not result in the same rows.
        - ``None``: copy pages that are large enough to be good pages of a larger file.
    max_source_fragments, max_source_rows, max_source_bytes
        Limits for the sum over all tasks. The first task that exceeds a limit, and all tasks after it, are
        left out.
    excluded_fragment_ids
        Fragments that are not rewritten. Their neighbours on both sides are not merged with each other.
    data_storage_version
        If it is given, it must be the version of the table.
    """

    target_rows_per_fragment: int = 1024 * 1024
    max_rows_per_group: int = 1024
    max_bytes_per_file: int | None = None
    materialize_deletions: bool = True
    materialize_deletions_threshold: float = 0.1
    defer_index_remap: bool = False
    num_threads: int | None = None
    batch_size: int | None = None
    io_buffer_size: int | None = None
    compaction_mode: str | None = None
    binary_copy_read_batch_bytes: int | None = None
    max_source_fragments: int | None = None
    max_source_rows: int | None = None
    max_source_bytes: int | None = None
    excluded_fragment_ids: tuple[int, ...] = ()
    data_storage_version: str | None = None

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if (value := getattr(self, name)) is None:
                continue
            number = as_integer(value)
            if number is None or number < 1:
                raise InvalidInputError(f"{name} must be a positive integer, got {value!r}")
            object.__setattr__(self, name, number)
        for name in ("materialize_deletions", "defer_index_remap"):
            object.__setattr__(self, name, checked_flag(getattr(self, name), name))
        threshold = self.materialize_deletions_threshold
        if not _is_number(threshold):
            raise InvalidInputError(f"materialize_deletions_threshold must be a number, got {threshold!r}")
        given = checked_items(self.excluded_fragment_ids, "excluded_fragment_ids", "a list of integers")
        excluded = tuple(checked_integer(each, "an id in excluded_fragment_ids") for each in given)
        object.__setattr__(self, "excluded_fragment_ids", excluded)
        if self.compaction_mode not in (None, REENCODE, TRY_BINARY_COPY, FORCE_BINARY_COPY):
            raise InvalidInputError(
                f"compaction_mode {self.compaction_mode!r} is unknown; "
                "use 'reencode', 'try_binary_copy' or 'force_binary_copy'"
            )
        if self.defer_index_remap:
            raise UnsupportedFeatureError(
                "defer_index_remap is not supported: this release cannot write a fragment reuse index"
            )


def compaction_options(table: Table, given: Mapping[str, Any]) -> CompactionOptions:
    """Return the options of a compaction of a table.

    Parameters
    ----------
    given
        Arguments by name. Arguments that are ``None`` count as not given.

    Raises
    ------
    InvalidInputError
        A name is unknown, or a value in the arguments or in the table's configuration is out of range.
    UnsupportedFeatureError
        This release does not support an option.
    """
    names = {each.name for each in dataclasses.fields(CompactionOptions)}
    unknown = sorted(set(given) - names)
    if unknown:
        raise InvalidInputError(f"unknown compaction option {unknown[0]!r}")
    options: dict[str, Any] = _configured(table.manifest.config)
    options.update((name, value) for name, value in given.items() if value is not None)
    return CompactionOptions(**options)


def _configured(config: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for key, text in config.items():
        name = key.removeprefix(CONFIG_PREFIX)
        if not key.startswith(CONFIG_PREFIX) or name not in _PARSERS:
            continue  # perhaps an option of a later release
        try:
            options[name] = _PARSERS[name](text)
        except ValueError as err:
            raise InvalidInputError(f"{key} = {text!r} in the table's config is invalid: {err}") from err
    return options


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


_COUNTS = (
    "target_rows_per_fragment",
    "max_rows_per_group",
    "max_bytes_per_file",
    "num_threads",
    "batch_size",
    "io_buffer_size",
    "binary_copy_read_batch_bytes",
    "max_source_fragments",
    "max_source_rows",
    "max_source_bytes",
)
_PARSERS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys((name for name in _COUNTS if name not in ("num_threads", "io_buffer_size")), int),
    "materialize_deletions": _parse_bool,
    "materialize_deletions_threshold": float,
    "defer_index_remap": _parse_bool,
    "compaction_mode": str,
    "data_storage_version": str,
}

"""The options of the data source, which Spark passes as strings with keys in lower case."""

from __future__ import annotations

import json
from dataclasses import field
from typing import TYPE_CHECKING, Final

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

_STORAGE: Final = "storage."
_KNOWN: Final = frozenset(
    {
        "path",
        "version",
        "tag",
        "branch",
        "columns",
        "filter",
        "splitbytes",
        "decimalsasintegers",
        "datastorageversion",
        "maxrowsperfile",
        "maxbytesperfile",
        "partitionoverwritemode",
        "overwriteschema",
        "statistics",
        "runid",
        "sinkid",
        "startingversion",
        "maxversionspertrigger",
        "maxrowspertrigger",
        "skipchangecommits",
    }
)
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
_NO_PATH: Final = (
    "the path of a table or namespace is missing; pass it to load() or save(). In SQL, Spark does not "
    "pass the location of a table in a catalog to a Python data source when it writes, or when CREATE "
    "TABLE listed columns. Use INSERT INTO name WITH (path = '…') or FROM name WITH (path = '…'), or "
    "CREATE TEMPORARY VIEW … USING lance_df OPTIONS (path '…')"
)
_SPLIT_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a read or a write.

    Attributes
    ----------
    path
        The path of a table or a partitioned namespace.
    version
        The number or tag of a version; None for the newest.
    columns
        The columns to read, which Spark does not pass otherwise.
    filter
        An SQL expression that is true for the rows to read.
    split_bytes
        Stored bytes for one task to read.
    decimals_as_integers
        Whether decimals are passed as integers; see `lance_df.spark.decimals`.
    partition_overwrite
        Which part of a namespace mode overwrite replaces: ``"all"``, or the ``"partitions"`` that occur in
        the rows (``partitionOverwriteMode``: static, dynamic).
    overwrite_schema
        Whether mode overwrite gives a table the columns of the rows (``overwriteSchema``). Otherwise the
        table keeps its columns.
    run_id
        The name of a write that is done only once.
    statistics
        Whether a write also writes zone maps of its rows.
    sink_id, checkpoint
        The name of a stream to write: the user's id, or the folder in which Spark stores the stream's state.
    starting_version
        For a stream to read: the first version whose new rows are read; ``"latest"`` for new rows after the
        newest version; ``"earliest"`` for all rows of the oldest version and new rows after it. The default
        is all rows of the newest version and new rows after it.
    max_versions, max_rows
        For a stream to read: limits of one batch, which has at least one version.
    skip_change_commits
        Whether a stream continues after a version that removed or replaced rows.
    storage
        Options for the fsspec filesystem, which start with ``storage.``; values may be JSON.
        ``storage.allowed_base_schemes`` lists the URL schemes of base paths, see `lance_df.dataset`.
    """

    path: str
    version: int | str | None = None
    branch: str | None = None
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    split_bytes: int = _SPLIT_BYTES
    decimals_as_integers: bool = False
    data_storage_version: str | None = None
    max_rows_per_file: int = 1024 * 1024
    max_bytes_per_file: int = 90 * 1024**3
    partition_overwrite: str = "all"
    overwrite_schema: bool = True
    run_id: str | None = None
    statistics: bool = False
    sink_id: str | None = None
    checkpoint: str | None = None
    starting_version: int | str | None = None
    max_versions: int | None = None
    max_rows: int | None = None
    skip_change_commits: bool = False
    storage: dict[str, object] = field(default_factory=dict)

    @property
    def of_streams(self) -> dict[str, object]:
        """The options for streams that are read, by name."""
        return {
            "startingVersion": self.starting_version,
            "maxVersionsPerTrigger": self.max_versions,
            "maxRowsPerTrigger": self.max_rows,
            "skipChangeCommits": self.skip_change_commits,
        }

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse the options.

        Raises
        ------
        InvalidInputError
            An option is unknown, contradicts another, or has an invalid value.
        """
        given = {key.lower(): value for key, value in options.items()}
        unknown = [key for key in given if key not in _KNOWN | _OF_SPARK and not key.startswith(_STORAGE)]
        if unknown:
            raise InvalidInputError(
                f"lance_df has no option {unknown[0]!r}; the options are {', '.join(sorted(_KNOWN))} and "
                "storage.*"
            )
        if not given.get("path"):
            raise InvalidInputError(_NO_PATH)
        if "version" in given and "tag" in given:
            raise InvalidInputError("the options version and tag cannot be combined")
        if "branch" in given and "tag" in given:
            raise InvalidInputError(
                "the options branch and tag cannot be combined, because a tag already names its branch"
            )
        version: int | str | None = given.get("tag")
        if "version" in given:
            version = _number("version", given["version"])
        return cls(
            path=given["path"],
            version=version,
            branch=given.get("branch"),
            columns=_names(given["columns"]) if "columns" in given else None,
            filter=given.get("filter"),
            split_bytes=_number("splitBytes", given.get("splitbytes", str(_SPLIT_BYTES))),
            decimals_as_integers=_flag("decimalsAsIntegers", given.get("decimalsasintegers", "false")),
            data_storage_version=given.get("datastorageversion"),
            max_rows_per_file=_number("maxRowsPerFile", given.get("maxrowsperfile", str(1024 * 1024))),
            max_bytes_per_file=_number("maxBytesPerFile", given.get("maxbytesperfile", str(90 * 1024**3))),
            partition_overwrite=_partition_overwrite(given.get("partitionoverwritemode", "static")),
            overwrite_schema=_flag("overwriteSchema", given.get("overwriteschema", "true")),
            run_id=given.get("runid"),
            statistics=_flag("statistics", given.get("statistics", "false")),
            sink_id=given.get("sinkid"),
            checkpoint=given.get("checkpointlocation"),
            starting_version=_starting_version(given.get("startingversion")),
            max_versions=_optional("maxVersionsPerTrigger", given),
            max_rows=_optional("maxRowsPerTrigger", given),
            skip_change_commits=_flag("skipChangeCommits", given.get("skipchangecommits", "false")),
            storage={
                key.removeprefix(_STORAGE): _value(value)
                for key, value in options.items()
                if key.lower().startswith(_STORAGE)
            },
        )


def refuse(wrong: Mapping[str, object], why: str) -> None:
    """Check that none of these options, given by name, is set.

    Raises
    ------
    InvalidInputError
        An option is set.
    """
    names = [name for name, value in wrong.items() if value is not None and value is not False]
    if names:
        raise InvalidInputError(f"option {names[0]} {why}")


def _number(name: str, text: str, words: str = "") -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidInputError(f"option {name} must be {words}a number of at least 1, got {text!r}")
    return number


def _optional(name: str, given: Mapping[str, str]) -> int | None:
    return _number(name, given[name.lower()]) if name.lower() in given else None


def _starting_version(text: str | None) -> int | str | None:
    if text is None or text.lower() in ("latest", "earliest"):
        return text and text.lower()
    return _number("startingVersion", text, "latest, earliest or ")


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidInputError(f"option {name} must be true or false, got {text!r}")
    return text.lower() == "true"


def _partition_overwrite(mode: str) -> str:
    modes = {"static": "all", "dynamic": "partitions"}
    if mode.lower() not in modes:
        raise InvalidInputError(f"option partitionOverwriteMode must be static or dynamic, got {mode!r}")
    return modes[mode.lower()]


def _names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas, or a JSON list for names with commas or outer blanks."""
    is_list = text.lstrip().startswith("[")
    names = _value(text) if is_list else [name.strip() for name in text.split(",")]
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise InvalidInputError(f"option columns must be 'a, b' or a JSON list of names, got {text!r}")
    return tuple(names)


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text

"""Read an ingest from a TOML file, with flags that replace values of the file.

::

    id = "flights-2013"

    [sources.flights]
    path = "raw/*.csv"

    [transform]
    sql = "SELECT * FROM flights WHERE distance > 0"

    [target]
    path = "flights"
    partition_by = ["month(time_hour)"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lance_df.errors import InvalidInputError, NotFoundError, StorageError
from lance_df.spark.ingesting.job import IngestJob, IngestSource

if TYPE_CHECKING:
    import os


def _text(value: object, where: str) -> str:
    return _of_type(str, "a string", value, where)


def _flag(value: object, where: str) -> bool:
    return _of_type(bool, "true or false", value, where)


def _count(value: object, where: str) -> int:
    if isinstance(value, bool):
        raise _mismatch("a whole number", value, where)
    return _of_type(int, "a whole number", value, where)


def _texts(value: object, where: str) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if isinstance(items, Sequence) and all(isinstance(item, str) for item in items):
        return tuple(items)
    raise _mismatch("a string or a list of strings", value, where)


def _mapping(value: object, where: str) -> dict[str, Any]:
    return dict(_of_type(Mapping, "a table of options", value, where))


def _options(value: object, where: str) -> dict[str, str]:
    """Return options as strings, which Spark takes."""
    options = {}
    for name, item in _mapping(value, where).items():
        if not isinstance(item, (str, int, float)):
            raise _mismatch("a string, a number, or true or false", item, f"{where}.{name}")
        options[name] = str(item).lower() if isinstance(item, bool) else str(item)
    return options


def _of_type(kind: type, words: str, value: Any, where: str) -> Any:
    if not isinstance(value, kind):
        raise _mismatch(words, value, where)
    return value


def _mismatch(words: str, value: object, where: str) -> InvalidInputError:
    return InvalidInputError(f"{where} must be {words}, got {value!r:.100}")


class _Key(NamedTuple):
    """A key of a pipeline file: the attribute that it sets, and the function that reads its value."""

    attribute: str
    read: Callable[[object, str], Any]


_SOURCE: Final = {
    "format": _Key("format", _text),
    "path": _Key("paths", _texts),
    "table": _Key("table", _text),
    "schema": _Key("schema", _text),
    "options": _Key("options", _options),
    "storage_options": _Key("storage_options", _mapping),
}
_SECTIONS: Final = {
    "transform": {"sql": _Key("sql", _text)},
    "target": {
        "path": _Key("target", _text),
        "mode": _Key("mode", _text),
        "partition_by": _Key("partition_by", _texts),
        "sort_by": _Key("sort_by", _texts),
        "schema": _Key("schema", _text),
        "statistics": _Key("statistics", _flag),
        "max_rows_per_file": _Key("max_rows_per_file", _count),
        "max_bytes_per_file": _Key("max_bytes_per_file", _count),
        "distribution": _Key("distribution", _text),
        "storage_options": _Key("storage_options", _mapping),
    },
    "rejects": {
        "path": _Key("rejects", _text),
        "storage_options": _Key("rejects_storage_options", _mapping),
    },
    "spark": {"master": _Key("master", _text), "conf": _Key("conf", _options)},
}


def load_job(
    path: str | os.PathLike[str],
    *,
    sources: Mapping[str, Mapping[str, Any]] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> IngestJob:
    """Read a pipeline file.

    Parameters
    ----------
    sources
        Attributes of `IngestSource` by name of the source. They replace those in the file; options are
        replaced one by one. A name that is not in the file is another source.
    attributes
        Attributes of `IngestJob`. They replace those in the file; options are replaced one by one.

    Raises
    ------
    NotFoundError
        The file does not exist.
    InvalidInputError
        The file is not TOML, or has unknown names or invalid values.
    """
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except FileNotFoundError as err:
        raise NotFoundError(f"{path}: file does not exist") from err
    except OSError as err:
        raise StorageError(f"{path}: cannot be read: {err.strerror}") from err
    except ValueError as err:
        raise InvalidInputError(f"{path}: invalid TOML: {err}") from err
    try:
        job, job_sources = _job_of(content)
        given = sources or {}
        named = {
            name: _merged(job_sources.get(name, {}), given.get(name, {})) for name in {**job_sources, **given}
        }
        return make_job(named, _merged(job, attributes or {}))
    except InvalidInputError as err:
        raise InvalidInputError(f"{path}: {err}") from err


def make_job(sources: Mapping[str, Mapping[str, Any]], attributes: Mapping[str, Any]) -> IngestJob:
    """Return a job from attributes of `IngestSource`, by name, and of `IngestJob`.

    Raises
    ------
    InvalidInputError
        Attributes are missing or contradict each other.
    """
    if not attributes.get("target"):
        raise InvalidInputError("an ingest needs a target: the path of a table or a namespace")
    return IngestJob(
        sources=tuple(IngestSource(name=name, **each) for name, each in sources.items()), **attributes
    )


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**first, **second}
    for name in first.keys() & second.keys():
        if isinstance(first[name], Mapping) and isinstance(second[name], Mapping):
            merged[name] = {**first[name], **second[name]}
    return merged


def _job_of(content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the attributes of the job, and the attributes of its sources by name."""
    known = ("id", "sources", *_SECTIONS)
    for name in content:
        if name not in known:
            raise InvalidInputError(f"unknown key {name!r}; the keys are {', '.join(known)}")
    attributes = {"id": _text(content["id"], "id")} if "id" in content else {}
    for name, keys in _SECTIONS.items():
        attributes |= _section(name, content.get(name, {}), keys)
    if "rejects" in content and "rejects" not in attributes:
        raise InvalidInputError("[rejects] needs a path")
    sources = _mapping(content.get("sources", {}), "sources")
    return attributes, {name: _section(f"sources.{name}", each, _SOURCE) for name, each in sources.items()}


def _section(name: str, section: object, keys: Mapping[str, _Key]) -> dict[str, Any]:
    attributes = {}
    for key, value in _mapping(section, f"[{name}]").items():
        if key not in keys:
            raise InvalidInputError(f"[{name}] has no key {key!r}; the keys are {', '.join(keys)}")
        attributes[keys[key].attribute] = keys[key].read(value, f"{name}.{key}")
    return attributes

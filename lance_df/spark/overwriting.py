"""Pass the session's mode of overwrites with each write of a DataFrame: Spark passes no settings."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from lance_df.spark.source import MODE_OF_SESSION, LanceSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_SETTING: Final = "spark.sql.sources.partitionOverwriteMode"
_WRITES: Final = ("save", "saveAsTable")


def session_mode(spark: SparkSession) -> str:
    """Return which part of a namespace ``overwrite`` replaces by the session's setting, in lower case."""
    return str(spark.conf.get(_SETTING, "static")).lower()


def pass_session_mode(writer: type[Any]) -> None:
    """Let the writers of a class pass the mode that the session of their rows has when they write.

    Writes to other data sources stay as they are.
    """
    for name in _WRITES:
        write = getattr(writer, name)
        if not hasattr(write, "passes_session_mode"):
            setattr(writer, name, _passing(write))


def _passing(write: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(write)

    @wraps(write)
    def passing(self: Any, *args: Any, **named: Any) -> None:
        source = signature.bind(self, *args, **named).arguments.get("format")
        if (_source_of(self) if source is None else source).lower() == LanceSource.name():
            self.option(MODE_OF_SESSION, session_mode(self._spark))
        write(self, *args, **named)

    passing.passes_session_mode = True  # type: ignore[attr-defined]
    return passing


def _source_of(writer: Any) -> str:
    """Return the name of the data source that was given to ``format``, or Spark's default."""
    connect = getattr(writer, "_write", None)
    return str(writer._jwrite.source() if connect is None else connect.source)

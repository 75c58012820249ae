"""Checks of each value that Arrow's library for Java makes, and that rows from Python do not need.

Spark takes columns of Arrow value by value, no more than their batch has, and asks whether a value is null
before it takes it. To check both once more is a third of the time in which Spark reads rows from Python. A
JVM reads these settings when it first uses Arrow.

Facts: ``BoundsChecking`` and ``NullCheckingForGet`` of Arrow Java, "Java Properties" in its documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROPERTIES: Final = {
    "arrow.enable_unsafe_memory_access": "true",
    "arrow.enable_null_check_for_get": "false",
}

EXECUTORS: Final = {
    f"spark.executorEnv.{name.upper().replace('.', '_')}": value for name, value in _PROPERTIES.items()
}
"""The configuration of Spark by which executors leave them out."""


def leave_out_on_driver(spark: SparkSession) -> None:
    """Switch them off in the JVM of a session that was just started, unless it has settings of its own."""
    system: Any = spark._sc._jvm.java.lang.System  # type: ignore[union-attr]
    for name, value in _PROPERTIES.items():
        if system.getProperty(name) is None and system.getenv(name.upper().replace(".", "_")) is None:
            system.setProperty(name, value)

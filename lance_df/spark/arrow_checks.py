"""Switch off checks of each value in Arrow's Java library that rows from Python do not need.

Spark reads Arrow columns value by value within the bounds of their batch, and checks for null before it reads
a value. The library checks both again, which is a third of the time in which Spark reads rows from Python. A
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
"""The Spark configuration that switches the checks off in executors."""


def leave_out_on_driver(spark: SparkSession) -> None:
    """Switch the checks off in the JVM of a new session, unless they are configured already."""
    system: Any = spark._sc._jvm.java.lang.System  # type: ignore[union-attr]
    for name, value in _PROPERTIES.items():
        if system.getProperty(name) is None and system.getenv(name.upper().replace(".", "_")) is None:
            system.setProperty(name, value)

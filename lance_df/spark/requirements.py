"""What Spark needs, and what to do where it is missing."""

from __future__ import annotations

import os
import shutil

from lance_df.errors import MissingDependencyError


def require_pyspark() -> None:
    """Check that PySpark can be imported, in a version that has what is used.

    Raises
    ------
    MissingDependencyError
        It is not there, or too old.
    """
    try:
        from pyspark import __version__
    except ImportError as err:
        raise MissingDependencyError(
            'Spark needs PySpark 4.1 or later: pip install "lance_df[spark]"'
        ) from err

    if tuple(int(part) for part in __version__.split(".")[:2]) < (4, 1):
        raise MissingDependencyError(
            f'Spark needs PySpark 4.1 or later, this is {__version__}: pip install -U "lance_df[spark]"'
        )


def require_java() -> None:
    """Check that a session can be started here, which takes a Java runtime.

    Raises
    ------
    MissingDependencyError
        There is neither JAVA_HOME nor java on the PATH.
    """
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and os.path.exists(os.path.join(home, "bin", "java"))):
        raise MissingDependencyError(
            "Spark needs Java 17 or later: install a JRE, and set JAVA_HOME or put java on the PATH"
        )

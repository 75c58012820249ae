"""Check that PySpark and Java are installed, with errors that name the missing one."""

from __future__ import annotations

import os
import shutil

from lance_df.errors import MissingDependencyError


def require_pyspark() -> None:
    """Check that a supported version of PySpark can be imported.

    Raises
    ------
    MissingDependencyError
        PySpark is missing or too old.
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
    """Check that there is a Java runtime to start a session.

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

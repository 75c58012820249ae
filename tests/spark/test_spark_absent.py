"""Without PySpark, or without Java, everything else works, and Spark says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lance_df.errors import MissingDependencyError
from lance_df.spark.requirements import require_java

WITHOUT_PYSPARK = """
import sys
sys.modules["pyspark"] = None
import pyarrow as pa, lance_df
lance_df.write_dataset(pa.table({"x": [1, 2]}), sys.argv[1])
print(lance_df.dataset(sys.argv[1]).count_rows("x > 1"))
try:
    lance_df.spark.register
except lance_df.MissingDependencyError as err:
    print(err)
"""


def test_without_pyspark_all_else_works(tmp_path):
    command = [sys.executable, "-c", WITHOUT_PYSPARK, str(tmp_path / "t.lance")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    count, message = done.stdout.splitlines()
    assert count == "1"
    assert 'pip install "lance_df[spark]"' in message


def test_importing_the_package_loads_no_pyspark():
    code = "import sys, lance_df, lance_df.spark; print('pyspark' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"


WITHOUT_JAVA = """
import os
os.environ["PATH"] = "/nowhere"
os.environ.pop("JAVA_HOME", None)
import lance_df
try:
    lance_df.spark.session("local[1]")
except lance_df.MissingDependencyError as err:
    print(err)
"""


def test_sessions_need_java():
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_JAVA]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "Java 17" in done.stdout


def test_without_java_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingDependencyError, match="Java 17"):
        require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    with pytest.raises(MissingDependencyError, match="Java 17"):
        require_java()
    (tmp_path / "bin" / "java").write_text("")
    require_java()

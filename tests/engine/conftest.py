"""A table in memory, for tests of the engine without files."""

import importlib.util
import sys
from pathlib import Path

import pyarrow as pa
import pytest

_spec = importlib.util.spec_from_file_location("fake_table", Path(__file__).with_name("fake_table.py"))
fake_table = importlib.util.module_from_spec(_spec)
sys.modules["fake_table"] = fake_table
_spec.loader.exec_module(fake_table)


@pytest.fixture
def fake() -> type:
    """The class of tables in memory."""
    return fake_table.FakeTable


@pytest.fixture
def sample(fake) -> "fake_table.FakeTable":
    return fake([fake_table.sample_table()])


@pytest.fixture
def memory() -> pa.Table:
    return fake_table.sample_table()

"""Damage one file of a table at random, then use the table: right rows or our errors, and nothing else."""

from __future__ import annotations

import functools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from exercise import Outcome, exercise, read_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import forget_sizes, mutate_file
from table_cases import NAMES, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# More and other examples: LANCE_DF_DAMAGE_EXAMPLES=5000 pytest --hypothesis-profile fresh tests/property
_EXAMPLES = int(os.environ.get("LANCE_DF_DAMAGE_EXAMPLES", "40"))
_SHARDS = max(1, _EXAMPLES // 1000)  # of many examples, which processes share
_PROFILE = settings(
    max_examples=_EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
_MAX_ROWS = 1_000_000
_SELDOM_READ = (".txn", ".json")


@dataclass(frozen=True)
class Original:
    """A table as it was written."""

    path: Path
    names: tuple[str, ...]
    files: tuple[str, ...]

    @functools.cached_property
    def values(self) -> dict[str, Any]:
        """What each way of reading gives. pylance agrees."""
        outcomes = exercise(self.path, self.names)
        assert not [outcome for outcome in outcomes if outcome.error is not None]
        values = {outcome.way: outcome.value for outcome in outcomes}
        assert _text(values["to_table"]) == _text(lance.dataset(str(self.path)).to_table())
        return values


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Original]:
    folder = tmp_path_factory.mktemp("originals")
    found = {}
    for name in NAMES:
        path = build(name, folder)
        files = (str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())
        used = tuple(sorted(file for file in files if not file.endswith(_SELDOM_READ)))
        found[name] = Original(path, tuple(lance.dataset(str(path)).schema.names), used)
    return found


@pytest.fixture(scope="module")
def workshop() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _text(value: Any) -> str:
    return repr(value.to_pylist()) if isinstance(value, pa.Table) else repr(value)


def _damage_bytes(content: bytes, rng: random.Random) -> bytes:
    """Flip, cut out, insert, overwrite, zero or repeat something, in the tail (the metadata) rather often."""
    window = min(len(content), 3000) if rng.random() < 0.6 else len(content)
    at = len(content) - 1 - rng.randrange(max(1, window))
    size = rng.choice((1, 1, 4, 16, 200))
    match rng.choice(("flip", "flip", "cut", "insert", "overwrite", "zero", "repeat")):
        case "flip":
            return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]
        case "cut":
            return content[:at] + content[at + size :]
        case "insert":
            return content[:at] + rng.randbytes(size) + content[at:]
        case "overwrite":
            return content[:at] + rng.randbytes(size) + content[at + size :]
        case "zero":
            return content[:at] + bytes(size) + content[at + size :]
    return content[: at + size] + content[at:]


def _run_damaged(
    original: Original, rng: random.Random, workshop: Path, damage: Callable[[bytes, str], bytes]
) -> list[Outcome]:
    """Copy a table, damage one of its files, and use it in some ways. The copy is gone afterwards."""
    name = rng.choice(original.files)
    path = Path(tempfile.mkdtemp(dir=workshop)) / original.path.name
    shutil.copytree(original.path, path)
    try:
        file = path / name
        content = file.read_bytes()
        damaged = damage(content, name)
        file.write_bytes(damaged)
        if damaged[-4:] == b"LANC" and name.endswith(".lance"):
            for manifest in path.rglob("*.manifest"):
                forget_sizes(manifest)
        outcomes = exercise(path, original.names, lambda way: way == "to_table" or rng.random() < 0.25)
        if name.startswith("data/"):
            outcomes.append(read_file(file))
        for outcome in outcomes:
            _check(outcome, path, original.names)
        return outcomes
    finally:
        shutil.rmtree(path.parent)


def _check(outcome: Outcome, path: Path, names: tuple[str, ...]) -> None:
    if outcome.error is not None:
        message = str(outcome.error)
        is_named = any(name in message for name in (str(path), "'", "No field named", "(in the "))
        assert is_named, f"{outcome.way}: nothing is named in: {message}"
        assert "object at 0x" not in message
    elif isinstance(outcome.value, pa.Table):
        outcome.value.validate()
        assert outcome.value.num_rows <= _MAX_ROWS
        for column in outcome.value.columns:
            if pa.types.is_string(column.type):
                column.validate(full=True)


@_PROFILE
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 2**48))
def test_t74_damaged_bytes(originals: dict[str, Original], workshop: Path, name: str, seed: int):
    rng = random.Random(seed)
    _run_damaged(originals[name], rng, workshop, lambda content, _: _damage_bytes(content, rng))


@pytest.mark.parametrize("shard", range(_SHARDS))
@settings(_PROFILE, max_examples=_EXAMPLES // _SHARDS)
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 2**48))
def test_messages_that_lie(originals: dict[str, Original], workshop: Path, shard: int, name: str, seed: int):
    """Change a field of a protobuf message; checksums there are none, so all else is as it should be."""
    rng = random.Random(f"{shard} {seed}")

    def damage(content: bytes, file: str) -> bytes:
        if file.endswith((".manifest", ".lance")):
            return mutate_file(content, file, rng)
        return _damage_bytes(content, rng)

    _run_damaged(originals[name], rng, workshop, damage)


@_PROFILE
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 2**48))
def test_t74_truncated_files(originals: dict[str, Original], workshop: Path, name: str, seed: int):
    """What is cut off is noticed by whoever needs it: the answer is the right one, or an error."""
    rng = random.Random(seed)
    original = originals[name]
    outcomes = _run_damaged(
        original, rng, workshop, lambda content, _: content[: rng.randrange(len(content))]
    )
    for outcome in outcomes:
        if outcome.error is None and outcome.way in original.values and outcome.way != "open":
            assert _text(outcome.value) == _text(original.values[outcome.way]), outcome.way


_LIMITED = """
import faulthandler, resource, sys
faulthandler.enable()
faulthandler.dump_traceback_later({seconds}, exit=True)
import pytest
import datafusion, pyarrow.dataset
from exercise import exercise
sys.path.insert(0, {folder!r})
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", {test!r} + "::test_messages_that_lie"]))
"""


def test_lies_take_no_memory():
    """Once more where a claim of gigabytes cannot be believed, and a crash is seen as one."""
    folder = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED.format(folder=folder, test=__file__, seconds=240 + _EXAMPLES)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([folder, *sys.path]),
            "LANCE_DF_DAMAGE_EXAMPLES": str(max(20, _EXAMPLES // 4)),
        },
        capture_output=True,
        text=True,
        timeout=300 + _EXAMPLES * 2,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

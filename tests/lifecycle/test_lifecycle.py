"""Random histories with fixed seeds, and that a defect of the past is found, reproduced and made short."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from planted import FIRST_FRAGMENT_ONLY

import lance_df
from tools.histories import run_random, run_seed
from tools.histories.model import Column, Model, Settings, State
from tools.histories.prelude import clean_up, leftovers
from tools.histories.running import Counts
from tools.histories.shrinking import replay, shrunk
from tools.histories.steps import Step
from tools.histories.workers import Workers

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, str(ROOT / "tools" / "lifecycle.py")]


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers(ROOT) as started:
        yield started


# few partitions with mixed limits, and 316 whose `__manifest` has many fragments
@pytest.mark.engine
@pytest.mark.parametrize(
    ("kind", "seed", "steps"),
    [("namespace", 7, 8), ("namespace", 9, 8), ("namespace", 460, 3), ("table", 9, 6), ("table", 75, 8)],
)
def test_histories_are_those_of_the_model(workers: Workers, kind: str, seed: int, steps: int) -> None:
    counts = Counts()
    model, failure = run_seed(seed, workers, counts, kind=kind, max_steps=steps)
    assert failure is None, failure.program(model.settings, f"seed {seed}")
    assert sum(counts.checks.values()) > 3
    assert sum(counts.sizes.values()) == (3 if kind == "namespace" else 1)
    assert counts.seconds > 0
    assert min(counts.seconds_by.values()) > -0.1  # processes take at least what their answers took


COLUMNS = [("a", "key", "int64"), ("s", "text", "string")]


def append(numbers: list[int], way: str = "new") -> Step:
    arguments = {"columns": COLUMNS, "numbers": numbers, "salt": 0, "statistics": None}
    return Step("append", arguments, way)


def few_partitions() -> Model:
    columns = tuple(Column(*each) for each in COLUMNS)
    settings = Settings("namespace", partitions=12, thresholds="fragments")
    return Model(settings, State(columns), ("a",))


def test_a_change_may_be_refused_before_its_process_is_killed(workers: Workers) -> None:
    model = Model(Settings("table"), State((Column("k", "key", "int64"), Column("v", "small", "int32"))))
    steps = [
        Step("create_scalar_index", {"column": "v", "role": "small", "kind": "BITMAP"}, "new"),
        Step("table_widen_column", {"name": "v"}, "killed", kill_at=1, kill_part="_transactions/"),
    ]
    assert replay(model, steps, workers, Counts()) is None


def test_what_two_processes_make_at_once_is_that_of_the_model(workers: Workers) -> None:
    columns = [("a", "key", "int64"), ("v", "small", "int32")]
    given = {"columns": columns, "salt": 0, "method": "insert", "max_rows_per_file": 100, "base": None}
    first, second = (Step("table_append", given | {"numbers": numbers}, "new") for numbers in ([0, 1], [2]))
    replaced = Step("table_replace_column", {"name": "v", "role": "text", "type": "string"}, "new")
    tag = Step("tag_version", {"name": "x", "version": 2}, "new")
    clean_up = {"retain_versions": 1, "delete_unverified": False, "is_shared": True}
    cleaned = Step("table_cleanup", clean_up, "pair", other=tag)
    model = Model(Settings("table"), State(tuple(Column(*each) for each in columns), is_ordered=True))
    steps = [first, second, cleaned, dataclasses.replace(second, way="pair", other=replaced)]
    assert replay(model, steps, workers, Counts()) is None
    into_new = {"columns": COLUMNS, "numbers": [12], "salt": 0, "statistics": None}
    parts = [("append", into_new), ("delete", {"where": ("lt", "a", 3)})]
    transaction = Step("transaction_into_new", {"parts": parts}, "new")
    other = Step("append_into_new", into_new, "pair", other=transaction)
    steps = [append(list(range(12))), other]
    assert replay(few_partitions(), steps, workers, Counts()) is None


def history_that_loses_rows() -> tuple[Model, list[Step]]:
    """Return partitions to which two processes append."""
    steps = [
        append(list(range(12)), "held"),
        Step("delete", {"where": ("eq", "a", 5000)}, "held"),
        append([1000], "held"),
        append([2000]),
    ]
    return few_partitions(), steps


def test_a_planted_defect_is_found_made_shorter_and_reproduced(tmp_path: Path, workers: Workers) -> None:
    model, steps = history_that_loses_rows()
    assert replay(model, steps, workers, Counts()) is None
    with Workers(ROOT, FIRST_FRAGMENT_ONLY) as broken:
        failure = replay(model, steps, broken, Counts())
        assert failure is not None
        model, short = shrunk(model, failure, broken, Counts(), seconds=300, attempts=4)
    assert short.kind == failure.kind
    assert len(short.steps) <= 3
    path = tmp_path / "program.py"
    text = short.program(model.settings, "A history.")
    assert len(text.partition("# create")[2].splitlines()) < 40
    path.write_text(text)
    assert ran(path).returncode == 0  # without the defect
    path.write_text(text.replace("\nhandles = {}", f"\n{FIRST_FRAGMENT_ONLY}\nhandles = {{}}"))
    outcome = ran(path)
    assert outcome.returncode == 1
    assert "Error" in outcome.stderr


def ran(path: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(path.parent)}
    return subprocess.run(
        [sys.executable, path], env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_random_histories_find_it() -> None:
    with Workers(ROOT, FIRST_FRAGMENT_ONLY) as broken:
        found = (
            run_random(few_partitions(), random.Random(seed), broken, Counts(), length=6) for seed in range(9)
        )
        assert any(failure is not None for failure in found)


def test_files_that_nothing_refers_to_are_seen(tmp_path: Path) -> None:
    root = tmp_path / "data"
    table = lance_df.write_dataset(pa.table({"a": range(9)}), root)
    table.delete("a = 1")
    table.create_scalar_index("a", "ZONEMAP")
    assert not leftovers(str(tmp_path), [str(root)])
    for name in ("data/x.lance", "_deletions/0-1-2.arrow", "_transactions/1-x.txn"):
        (root / name).touch()
    found = ["data/_deletions/0-1-2.arrow", "data/_transactions/1-x.txn", "data/data/x.lance"]
    assert leftovers(str(tmp_path), [str(root)]) == found
    assert clean_up(str(tmp_path), table, str(root), retain_versions=2) == [2, 3]
    assert set(found) <= set(leftovers(str(tmp_path), [str(root)]))
    assert clean_up(str(tmp_path), table, str(root), retain_versions=1, delete_unverified=True) == [3]


def test_a_model_that_differs_is_a_failure(workers: Workers) -> None:
    model, steps = history_that_loses_rows()
    model = model.with_state(model.state.plus([(1, "not there")]))
    failure = replay(model, steps, workers, Counts())
    assert failure is not None
    assert failure.kind == "rows"
    assert "not there" in failure.text


def test_a_step_may_have_read_before_another_process_wrote() -> None:
    columns = (Column("a", "key", "int64"),)
    before = State(columns, ((1,), (2,)))
    inserted = State(columns, ((1,), (2,), (3,)))
    deleted = State(columns, ((2,),))
    combined = deleted.with_change(before, inserted)
    assert combined is not None
    assert sorted(combined.rows) == [(2,), (3,)]
    assert deleted.with_change(before, deleted) is None
    assert State((Column("b", "key", "int64"),)).with_change(before, inserted) is None


def test_the_command_writes_a_summary_and_ends_on_an_interrupt(tmp_path: Path) -> None:
    summary = tmp_path / "summary.jsonl"
    command = [*COMMAND, "--seconds", "120", "--seed", "7", "--summary", str(summary)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [*command, "--failures", str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
    )
    while not list(tmp_path.glob("lifecycle-*/data")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0]
    assert process.returncode == 0
    [line] = map(json.loads, summary.read_text().splitlines())
    assert line["seed"] == 7
    assert line["processor_seconds"] > 0
    assert not list(tmp_path.glob("lifecycle-*"))

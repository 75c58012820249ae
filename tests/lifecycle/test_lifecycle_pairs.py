"""What the steps of two processes at once may lead to."""

from __future__ import annotations

import dataclasses
import random

import pytest

from tools.histories.model import Column, Model, Settings, State
from tools.histories.pairs import models_after
from tools.histories.prelude import value
from tools.histories.steps import OPERATIONS, Step, draw_step
from tools.histories.workers import Outcome

COLUMNS = (Column("k", "key", "int64"), Column("v", "small", "int32"))
RENAMED = (COLUMNS[0], Column("w", "small", "int32"))


def model(rows=(), columns=COLUMNS, **others):
    return Model(Settings("table"), State(columns, is_ordered=True).plus(list(rows)), **others)


def append(numbers, columns=COLUMNS):
    arguments = {
        "columns": [dataclasses.astuple(each) for each in columns],
        "numbers": numbers,
        "salt": 0,
        "method": "insert",
        "max_rows_per_file": 100,
        "base": None,
    }
    return Step("table_append", arguments, "pair"), Outcome()


def rows_of(models):
    return {tuple(row[0] for row in each.state.rows) for each in models}


def test_appends_of_two_processes_keep_the_order_of_each():
    found = models_after(model(), [[append([1]), append([2])], [append([3])]])
    assert rows_of(found) == {(1, 2, 3), (1, 3, 2), (3, 1, 2)}
    assert all(each.state.is_ordered for each in found)


def test_rows_beside_a_renamed_column_have_no_order():
    rename = Step("table_rename_column", {"old": "v", "new": "w"}, "pair"), Outcome()
    found = models_after(model(), [[rename, append([1], RENAMED)], [append([2])]])
    assert all(each.state.names == ["k", "w"] for each in found)
    assert {frozenset(rows) for rows in rows_of(found)} == {frozenset({1, 2})}
    assert not any(each.state.is_ordered for each in found)


def test_a_version_may_be_restored_while_another_process_removes_it():
    started = model([(7, 0)], versions={3: State(COLUMNS)}, indices=("k",))
    restore = Step("restore", {"version": 3}, "pair"), Outcome()
    clean_up = {"retain_versions": 30, "delete_unverified": False, "is_shared": True}
    cleaned = Step("table_cleanup", clean_up, "pair"), Outcome()
    found = models_after(started, [[restore], [cleaned, append([1])]])
    assert rows_of(found) == {(), (1,)}
    assert not any(each.versions or each.indices for each in found)


def test_partitions_may_be_replaced_by_another_spec():
    columns = (*COLUMNS, Column("p", "part5", "int32"))
    started = Model(Settings("namespace"), State(columns), spec=("p",))
    given = {"columns": [dataclasses.astuple(each) for each in columns], "salt": 0}
    # rows 1 and 19 have the same v, and other values of p
    overwrite = Step("overwrite_partitions", given | {"numbers": [1]}, "pair"), Outcome()
    spec = (
        Step("update_partition_spec", {"spec": ("v",), "columns": [("v", "small", "int32")]}, "pair"),
        Outcome(),
    )
    added = Step("append", given | {"numbers": [19], "statistics": None}, "pair"), Outcome()
    assert rows_of(models_after(started, [[overwrite], [spec, added]])) == {(1,), (1, 19)}


def test_a_merge_may_not_see_rows_whose_column_was_dropped_before_it_read():
    columns = (*COLUMNS, Column("w", "small", "int32"))
    drop = Step("table_drop_column", {"name": "w"}, "pair"), Outcome()
    merged = {
        "columns": [dataclasses.astuple(each) for each in COLUMNS],
        "numbers": [1, 2],
        "salt": 0,
        "on": "k",
        "matched": None,
        "insert": True,
        "by_source": None,
    }
    merge = Step("merge_insert", merged, "pair"), Outcome()
    found = models_after(model(columns=columns), [[drop, merge], [append([1], columns)]])
    assert {tuple(sorted(rows)) for rows in rows_of(found)} == {(1, 2), (1, 1, 2)}
    # rows that are there before the merge begins are seen
    found = models_after(model(), [[append([3]), merge], [append([1])]])
    assert {tuple(sorted(rows)) for rows in rows_of(found)} == {(1, 2, 3), (1, 1, 2, 3)}


@pytest.mark.parametrize(("kind", "name"), [("table", "table_widen_column"), ("namespace", "widen_column")])
def test_both_processes_may_widen_a_column(kind, name):
    started = Model(Settings(kind), State(COLUMNS))
    widened = Step(name, {"name": "v"}, "pair")
    found = models_after(started, [[(widened, Outcome())], [(widened, Outcome())]])
    assert {tuple(each.type for each in model.state.columns) for model in found} == {("int64", "int64")}


def test_rows_of_the_narrow_type_are_appended_before_another_process_widens_the_column():
    widen = Step("table_widen_column", {"name": "v"}, "pair"), Outcome()
    narrow, wide = append([1]), append([2], (COLUMNS[0], Column("v", "small", "int64")))
    assert rows_of(models_after(model(), [[widen], [narrow]])) == {(1,)}
    assert rows_of(models_after(model(), [[widen, wide], [narrow]])) == {(1, 2)}
    assert not models_after(model(), [[widen, narrow], []])


def test_a_kill_leaves_open_whether_old_versions_are_removed_from_now_on():
    started = model(versions={3: State(COLUMNS)})
    for broken_off in (started, dataclasses.replace(started, cleans_up=True)):
        left = OPERATIONS["auto_cleanup"].broken_off(broken_off)
        assert left.cleans_up
        assert not left.versions


def test_a_known_version_may_be_given_a_name_while_another_process_removes_versions():
    started = model([(7, 0)], versions={3: State(COLUMNS)})
    given = {"name": "x", "version": 3, "columns": [dataclasses.astuple(each) for each in COLUMNS]}
    tag = Step("tag_version", given, "pair"), Outcome()
    branch = Step("branch_version", given | {"numbers": [4], "salt": 0}, "pair"), Outcome()
    clean_up = {"retain_versions": 1, "delete_unverified": False, "is_shared": True}
    cleaned = Step("table_cleanup", clean_up, "pair"), Outcome()
    for named, name, rows in ((tag, "x", ()), (branch, "branch x", (4,))):
        found = models_after(started, [[cleaned], [named]])
        assert rows_of(found) == {(7,)}
        assert {tuple(row[0] for row in each.tags[name].rows) for each in found} == {rows}
        assert not models_after(started, [[named], [named]])


@pytest.mark.parametrize("name", ["tag_version", "branch_version", "restore"])
def test_only_a_clean_up_excuses_that_a_version_is_gone(name):
    def excused(other, **others):
        return OPERATIONS[name].excused(model(**others), [OPERATIONS[other]])

    assert "VersionNotFoundError" in excused("table_cleanup")
    assert "VersionNotFoundError" in excused("table_append", cleans_up=True)
    assert "VersionNotFoundError" not in excused("table_append")


def test_rows_with_a_column_are_appended_before_another_process_replaces_it_by_one_of_another_type():
    replaced = (
        Step("table_replace_column", {"name": "v", "role": "text", "type": "string"}, "pair"),
        Outcome(),
    )
    [found, *_] = models_after(model([(1, 5)]), [[replaced], [append([2])]])
    assert found.state.columns == (COLUMNS[0], Column("v", "text", "string"))
    assert sorted(found.state.rows) == [(1, None), (2, None)]
    assert not models_after(model(), [[replaced, append([2])], []])
    for where, fits in ((("eq", "v", 5), False), (("lt", "v", "a"), True)):
        delete = Step("table_delete", {"where": where}, "pair"), Outcome()
        assert bool(models_after(model(), [[replaced, delete], []])) == fits


def test_two_processes_may_make_the_same_new_partitions():
    columns = (*COLUMNS, Column("p", "part5", "int32"))
    started = Model(Settings("namespace"), State(columns, ((0, 0, 0), (1, 0, 4))), spec=("p",), next_number=2)
    drawn = [OPERATIONS["transaction_into_new"].generate(random.Random(seed), started) for seed in range(9)]
    one, two = [each for each in drawn if each is not None][:2]
    lines = [[(Step("transaction_into_new", each, "pair"), Outcome())] for each in (one, two)]
    for each in models_after(started, lines):
        assert sum(row[2] is not None and row[2] >= 5 for row in each.state.rows) > 1
    assert value("part5", 2, 1000) == 7


def test_rivals_are_drawn_together():
    started = model([(1, 0)], versions={3: State(COLUMNS)})
    drawn = (draw_step(random.Random(seed), started) for seed in range(3000))
    pairs = [step for step in drawn if step.operation in ("tag_version", "restore") and step.other]
    assert sum(step.other.operation == "table_cleanup" for step in pairs) > len(pairs) / 3 > 1

"""Comparisons by IS DISTINCT FROM in statements that change rows."""

import pytest

from lance_df.errors import UnsupportedFeatureError
from lance_df.sql.distinct_from import check_distinct_from
from lance_df.sql.parse_changes import parse_change


@pytest.mark.parametrize(
    "condition",
    [
        "a IS DISTINCT FROM b AND c",
        "a is not distinct\nfrom b or c",
        "d OR (a IS DISTINCT FROM b AND c)",
        "a IS DISTINCT FROM b = c",
        "a IS DISTINCT FROM b IS NULL",
        "a IS DISTINCT FROM b IS DISTINCT FROM c",
        "a IS DISTINCT FROM b NOT IN (1, 2)",
        "a IS DISTINCT FROM b BETWEEN 1 AND 2",
        "a IS DISTINCT FROM b + offset AND c",
        "a IS DISTINCT FROM end AND c",
        "a IS DISTINCT FROM t.limit AND c",
        "a IS DISTINCT FROM left(b, 2) AND c",
        "a IS DISTINCT FROM CASE WHEN b THEN 1 END AND c",
        "CASE WHEN a IS DISTINCT FROM b AND c THEN true END",
        "EXISTS (SELECT 1 FROM u WHERE a IS DISTINCT FROM b OR c)",
    ],
)
def test_what_follows_the_right_side_is_refused(condition: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"DISTINCT FROM with .* use brackets"):
        check_distinct_from(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "a IS DISTINCT FROM b",
        "c AND a IS NOT DISTINCT FROM b",
        "(a IS DISTINCT FROM b) AND c",
        "a IS DISTINCT FROM (b AND c)",
        "a IS DISTINCT FROM b + 1 * f(c = 1)",
        "CASE WHEN a IS DISTINCT FROM b THEN c = 1 ELSE d END",
        "x IN (SELECT a IS DISTINCT FROM b AS f FROM u WHERE c = 1)",
        "x IN (SELECT a FROM u JOIN v ON u.a IS NOT DISTINCT FROM v.a LEFT JOIN w ON w.a = v.a)",
        "x IN (SELECT a FROM u WHERE a IS DISTINCT FROM 1 UNION SELECT a FROM u WHERE a = 2)",
        "s = 'a IS DISTINCT FROM b AND c'",
        "count(DISTINCT a) = 1 AND b",
    ],
)
def test_what_has_one_meaning_is_taken(condition: str) -> None:
    check_distinct_from(condition)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t WHERE ?",
        "UPDATE t SET a = ? WHERE b",
        "UPDATE t SET a = 1 WHERE ?",
        "UPDATE t SET a = 1 FROM (SELECT a FROM u WHERE ?) s WHERE s.a = t.a",
        "MERGE INTO t USING s ON ? WHEN MATCHED AND b = 1 THEN DELETE",
        "MERGE INTO t USING (SELECT a FROM u WHERE ?) s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED AND ? THEN UPDATE SET a = 1",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = ? WHEN NOT MATCHED THEN INSERT *",
    ],
)
def test_all_parts_of_changes_are_checked(statement: str) -> None:
    parse_change(statement.replace("?", "x IS DISTINCT FROM y"))
    with pytest.raises(UnsupportedFeatureError, match="use brackets"):
        parse_change(statement.replace("?", "x IS DISTINCT FROM y AND c"))


def test_queries_of_insertions_stay_queries() -> None:
    parse_change("INSERT INTO t SELECT a FROM u WHERE a IS DISTINCT FROM b AND c")

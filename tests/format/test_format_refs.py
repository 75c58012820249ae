"""Tag and branch files of all releases, names, damage."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.format.refs import Branch, Tag, check_branch_name, check_tag_name

TIME = dt.datetime(2026, 11, 21, 2, 6, 59, 975253, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ('{"version":3,"manifestSize":9}', Tag(version=3, manifest_size=9)),
        ('{"branch":"b/c","version":3,"manifestSize":1}', Tag(version=3, branch="b/c", manifest_size=1)),
        (
            '{"branch":null,"version":3,"createdAt":"2026-11-21T02:06:59.975253451Z",'
            '"updatedAt":"2026-11-21T02:06:59.975253451Z","manifestSize":720,"metadata":{"a":"b"}}',
            Tag(version=3, manifest_size=720, created_at=TIME, updated_at=TIME, metadata={"a": "b"}),
        ),
    ],
    ids=["first", "branches", "today"],
)
def test_tags_of_all_releases(text, tag):
    assert Tag.from_json(text.encode(), source="t.json") == tag
    assert Tag.from_json(tag.to_json(), source="t.json") == tag


def test_branches_of_all_releases():
    old = Branch.from_json(b'{"parentVersion":11,"createAt":5,"manifestSize":1}', source="b.json")
    assert old == Branch(parent_version=11, created_at=5, manifest_size=1)
    new = Branch(
        parent_version=14,
        parent_branch="br/x",
        identifier=((11, "c2" * 16), (14, "d3" * 16)),
        created_at=1795226819,
        manifest_size=1069,
        metadata={"k": "v"},
    )
    assert Branch.from_json(new.to_json(), source="b.json") == new
    assert json.loads(new.to_json())["identifier"] == {"version_mapping": [[11, "c2" * 16], [14, "d3" * 16]]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "{}",
        '{"version":"3"}',
        '{"version":true}',
        '{"version":-1}',
        '{"version":99999999999999999999999}',
        '{"version":1,"branch":7}',
        '{"version":1,"createdAt":"yesterday"}',
        '{"version":1,"createdAt":"0001-01-01T00:00:00+23:59"}',
        '{"version":1,"branch":"\\ud800"}',
        '{"version":1,"metadata":{"a":1}}',
        '{"version":1,"metadata":{"\\udcff":"a"}}',
        "[" * 5000,
    ],
    ids=lambda text: text[:40] or "empty",
)
def test_damaged_tags_are_reported(text):
    with pytest.raises(CorruptDataError, match=r"t\.json"):
        Tag.from_json(text.encode(), source="t.json")


@pytest.mark.parametrize("identifier", ["7", '{"version_mapping":[[1]]}', '{"version_mapping":{}}'])
def test_damaged_branches_are_reported(identifier):
    with pytest.raises(CorruptDataError, match="identifier"):
        Branch.from_json(f'{{"parentVersion":1,"identifier":{identifier}}}'.encode(), source="b.json")


@given(st.binary(max_size=40))
def test_noise_is_reported(data):
    with pytest.raises(CorruptDataError):
        Tag.from_json(data, source="t.json")


def test_names():
    for name in ("a", "v1.0", "A-b_c", "0", "tägg", "日本"):
        assert check_tag_name(name) == check_branch_name(name) == name
    assert check_branch_name("a/b/c.d") == "a/b/c.d"
    for name in ("", "a b", ".a", "a.", "a..b", "x.lock", "a/b", "a\n"):
        with pytest.raises(InvalidInputError, match="tag name"):
            check_tag_name(name)
    for name in ("", "/a", "a/", "a//b", "..", "a/../b", "a\\b", "x.lock", "main", "a/.", "a\n"):
        with pytest.raises(InvalidInputError, match="branch name"):
            check_branch_name(name)

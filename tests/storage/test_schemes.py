"""Places that stored files name: which texts are such, and which are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError
from lance_df.storage import open_location
from lance_df.storage.schemes import check_stored

if TYPE_CHECKING:
    from pathlib import Path

_LOCAL = ("file", "")
_S3 = ("s3", "bucket/table")
_HTTP = ("http", "host:80/table")


@pytest.mark.parametrize(
    ("text", "home"),
    [
        *(("/a/b", _LOCAL), ("file:///a", _LOCAL), ("FILE:///a", _LOCAL), ("file://localhost/a", _LOCAL)),
        *(("/a::b", _LOCAL), ("relative", _LOCAL), ("C:\\a", _LOCAL)),
        *(("s3://other/a", _S3), ("S3A://other/a", _S3), ("gs://b/a", _S3), ("az://c/a", _S3), ("/a", _S3)),
        *(("memory://a", ("memory", "/t")), ("http://host:80/b", _HTTP), ("HTTP://HOST:80/b", _HTTP)),
        *(("hdfs://other/b", ("hdfs", "host/table")), ("own://b", ("own", "table"))),
    ],
)
def test_places_of_the_same_kind_of_store(text: str, home: tuple[str, str]):
    scheme, colon, rest = text.rpartition("://")
    assert check_stored(text, source="t", home=home, allowed=frozenset()) == scheme.lower() + colon + rest


@pytest.mark.parametrize("home", [_LOCAL, _S3, ("memory", "/t"), _HTTP, ("simplecache", "")])
@pytest.mark.parametrize(
    "text",
    [
        *("http://evil/a", "https://host:80/a", "HTTP://evil", "hTTps://evil/", "ftp://evil/a"),
        *("reference://a", "zip://a", "tar://a", "github://o:r@main/a", "smb://host/a", "filecache://a"),
        *("c://a", "git+ssh://host/a", "data://a", "jar-x.y+z://a"),
    ],
)
def test_other_stores_need_to_be_allowed(text: str, home: tuple[str, str]):
    scheme = text.partition("://")[0].lower()
    with pytest.raises(InvalidInputError, match="allowed_base_schemes"):
        check_stored(text, source="t", home=home, allowed=frozenset())
    checked = check_stored(text, source="t", home=home, allowed=frozenset({scheme}))
    assert checked == f"{scheme}://{text.partition('://')[2]}"


@pytest.mark.parametrize(("text", "home"), [("memory://a", _LOCAL), ("memory://a", _S3), ("/a", _LOCAL)])
def test_memory_and_local_files_are_kinds_of_their_own(text: str, home: tuple[str, str]):
    own = check_stored("/x", source="t", home=home, allowed=frozenset())
    assert own == "/x"
    if text != "/a":
        with pytest.raises(InvalidInputError):
            check_stored(text, source="t", home=home, allowed=frozenset())
    for far in (_S3, ("memory", "/t"), _HTTP):
        with pytest.raises(InvalidInputError):
            check_stored("file:///etc/passwd", source="t", home=far, allowed=frozenset())


@pytest.mark.parametrize(
    "text",
    [
        *("reference::http://evil/a", "simplecache::http://evil/a", "filecache::https://evil/a"),
        *("zip://a::s3://bucket/z", "s3://bucket/a::http://evil", "Reference::file:///a", "file::/etc"),
        *(" simplecache::http://evil", "/a::http://evil/x", "%73implecache::http://evil", "::http://evil"),
    ],
)
def test_chains_are_never_opened(text: str):
    everything = frozenset({"http", "https", "reference", "simplecache", "filecache", "zip", "file", "s3"})
    for home in (_LOCAL, _S3):
        with pytest.raises(UnsupportedFeatureError, match="chain"):
            check_stored(text, source="t", home=home, allowed=everything)


@pytest.mark.parametrize(
    "text",
    [
        *("", " /a", "\t/a", "\nhttp://evil", "a\0b", "s3://bu\tcket/a", "s3://\tb/a", "http://evil\r\nX/a"),
        *("\\\\host\\share", "file://host/share", "file:////host/share", "FILE://host/a", "local://host/a"),
    ],
)
@pytest.mark.parametrize("home", [_LOCAL, _S3])
def test_texts_that_are_no_place_of_this_machine(text: str, home: tuple[str, str]):
    with pytest.raises(CorruptDataError):
        check_stored(text, source="t", home=home, allowed=frozenset({"s3", "http", "file", "local"}))


def test_options_that_are_no_mapping_are_not_repeated(tmp_path: Path):
    with pytest.raises(InvalidInputError) as caught:
        open_location(tmp_path, "secret")  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)

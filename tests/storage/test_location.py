"""Files and folders of local disks, fsspec file systems and S3."""

import logging
import os
import stat
import subprocess
import sys
import traceback
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.errors import (
    CorruptDataError,
    InvalidInputError,
    LanceError,
    MissingDependencyError,
    NotFoundError,
    StorageError,
)
from lance_df.storage import open_location


@pytest.fixture(params=["local", "file", "memory", "s3"])
def folder(request, tmp_path):
    """An empty place in each kind of store."""
    if request.param == "s3":
        return open_location(
            f"{request.getfixturevalue('bucket')}/ordner", request.getfixturevalue("s3_options")
        )
    urls = {"local": str(tmp_path), "file": f"file://{tmp_path}", "memory": f"memory://{tmp_path}"}
    return open_location(urls[request.param])


def test_write_read_list(folder):
    (folder / "b.bin").put(b"12345")
    (folder / "a ü%20.bin").put(b"")
    (folder / "sub/c.bin").put(b"x" * 1000)
    (folder / "b.bin").put(b"1234567")
    entries = list(folder.list())
    assert [(entry.name, entry.is_directory) for entry in entries] == [
        ("a ü%20.bin", False),
        ("b.bin", False),
        ("sub", True),
    ]
    assert [entry.size for entry in entries if not entry.is_directory] == [0, 7]
    assert (folder / "b.bin").read() == b"1234567"
    assert (folder / "a ü%20.bin").read() == b""
    assert folder.child("sub/c.bin").open().read_range(10, 12).to_pybytes() == b"xx"
    assert (folder / "b.bin").open_sized(7).read_tail(2).to_pybytes() == b"67"


def test_existence(folder):
    assert not (folder / "x").exists()
    (folder / "x").put(b"1")
    assert (folder / "x").exists()


def test_what_is_missing(folder):
    assert list((folder / "nothing").list()) == []
    with pytest.raises(NotFoundError, match="nothing"):
        (folder / "nothing").read()
    with pytest.raises(LanceError):
        (folder / "nothing").open_sized(10).read_range(0, 10)


def test_new_files_show_up_in_a_listing_that_was_made_before(folder):
    assert list(folder.list()) == []
    (folder / "one").put(b"1")
    assert [entry.name for entry in folder.list()] == ["one"]
    (folder / "two").put(b"2")
    assert [entry.name for entry in folder.list()] == ["one", "two"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "..",
        "../x",
        "a/../../x",
        "a//b",
        "%2e%2e/x",
        "a/%2E%2e/x",
        "%2Fetc/passwd",
        "..\\x",
        "\\\\server\\share",
        "C:/x",
        "c:x",
        "s3://other/x",
        "file%3A%2F%2F/x",
        "a\0b",
        "a%00b",
    ],
)
def test_paths_that_leave_the_folder_are_refused(folder, path):
    with pytest.raises(CorruptDataError):
        folder.child(path)


@pytest.mark.parametrize(
    "path",
    ["a", "a/b.lance", "..a/b..", "ü b/100%.lance", "a.b/...c", "x0$v1$4ax/data/0a-1_b.lance", "a\n"],
)
def test_paths_that_stay_inside_are_joined(folder, path):
    assert folder.child(path).path == f"{folder.path}/{path}"


@given(st.text("ab./\\:%2Ef$-_é\n\0", max_size=8))
def test_no_path_leaves_the_folder(text):
    folder = open_location("/some/folder")
    try:
        path = folder.child(text).path
    except CorruptDataError:
        return
    assert path == f"/some/folder/{text}"
    for read in (path, unquote(path)):
        assert f"{os.path.normpath(read)}/".startswith("/some/folder/")
        assert not {"", ".."} & set(read.replace("\\", "/").split("/")[3:])


@pytest.mark.parametrize("uri", ["", "a\0b", "nosuchscheme://x/y"])
def test_places_that_are_none(uri):
    with pytest.raises(InvalidInputError):
        open_location(uri)


@pytest.mark.parametrize("scheme", ["s3", "memory", "file"])
def test_schemes_are_in_any_case(tmp_path, scheme):
    lower = open_location(f"{scheme}://{tmp_path}/t.lance")
    upper = open_location(f"{scheme.upper()}://{tmp_path}/t.lance")
    assert (upper.uri, upper.path) == (lower.uri, lower.path)
    beside = lower.elsewhere_as_given(f"{scheme.upper()}://{tmp_path}/u.lance")
    assert beside.path == open_location(f"{scheme}://{tmp_path}/u.lance").path


def test_a_scheme_whose_package_is_missing_names_the_extra(monkeypatch):
    import fsspec.core

    def refuse(*args, **kwargs):
        raise ImportError("no module")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refuse)
    with pytest.raises(MissingDependencyError, match=r"lance_df\[gcs\]"):
        open_location("gs://bucket/x")


def test_local_paths_are_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_location("x.lance").path == str(tmp_path / "x.lance")
    assert open_location("./a/../x.lance").path == str(tmp_path / "x.lance")
    assert open_location("x.lance").name == "x.lance"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_location("~/x.lance").path == str(tmp_path / "x.lance")


@pytest.mark.parametrize("host", ["", "localhost", "LOCALHOST"])
@pytest.mark.parametrize("scheme", ["file", "local"])
def test_urls_of_local_files_may_name_this_machine(tmp_path, scheme, host):
    assert open_location(f"{scheme}://{host}{tmp_path}/x.lance").path == str(tmp_path / "x.lance")


@pytest.mark.parametrize("url", ["file://host/x", "file://x.lance", "FILE://./x", "local://host/x"])
def test_urls_of_files_of_other_machines_are_refused(url):
    with pytest.raises(InvalidInputError, match="has the host"):
        open_location(url)


def test_a_relative_path_needs_a_working_directory(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StorageError, match=r"x\.lance: .*working directory .* no longer exists"):
        open_location("x.lance")
    assert open_location(tmp_path / "x.lance").path == str(tmp_path / "x.lance")


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_paths_that_cannot_be_encoded_are_refused(tmp_path, scheme):
    with pytest.raises(InvalidInputError, match="utf-8"):
        open_location(f"{scheme}{tmp_path}/\ud800")
    program = f"""
from lance_df.errors import InvalidInputError, StorageError
from lance_df.storage import open_location
folder = open_location({str(tmp_path)!r})
(folder / "\\xe9").remove_empty_folder()
for call in (lambda: open_location("\\xe9"), lambda: (folder / "\\xe9").put(b"x")):
    try:
        call()
    except (InvalidInputError, StorageError) as error:
        print(ascii(str(error)))
"""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.count("PYTHONUTF8=1") == 2


def test_a_folder_is_removed_with_all_that_is_in_it(folder):
    for name in ("t/a", "t/sub/b", "other"):
        (folder / name).put(b"1")
    (folder / "t").remove_tree()
    (folder / "t").remove_tree()
    assert [entry.name for entry in folder.list()] == ["other"]


def test_the_working_directory_is_removed(tmp_path, monkeypatch):
    (tmp_path / "t" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "t" / "sub")
    open_location(tmp_path / "t").remove_tree()
    assert list(tmp_path.iterdir()) == []


def test_what_a_link_leads_to_is_not_removed(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").touch()
    (tmp_path / "t").mkdir()
    for link in ("direct", "t/inside"):
        (tmp_path / link).symlink_to(tmp_path / "home")
    for name in ("direct", "t"):
        open_location(tmp_path / name).remove_tree()
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["home", "home/letter"]


def test_a_folder_is_not_a_file(folder):
    (folder / "sub/file").put(b"1")
    with pytest.raises(LanceError):
        (folder / "sub").open()


def test_reading_a_read_only_folder_works_and_changes_nothing(tmp_path):
    file = tmp_path / "data"
    file.write_bytes(b"abc")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path, file)}
    file.chmod(stat.S_IRUSR)
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        location = open_location(tmp_path)
        assert [entry.name for entry in location.list()] == ["data"]
        assert (location / "data").read() == b"abc"
        if os.geteuid() != 0:  # nothing is read-only to the superuser
            with pytest.raises(StorageError):
                (location / "new").put(b"1")
        assert before == {path: path.stat().st_mtime_ns for path in (tmp_path, file)}
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_files_that_cannot_be_looked_up_are_not_missing(tmp_path, monkeypatch):
    file = open_location(tmp_path) / "data"
    file.put(b"abc")
    for missing in (file / "below", open_location(tmp_path) / "other"):
        assert (missing.exists(), missing.is_file()) == (False, False)

    def deny(*args, **options):
        raise PermissionError(13, "Permission denied")

    for look in (file.exists, file.is_file):
        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", deny)
            with pytest.raises(StorageError, match="data: Permission denied"):
                look()


def test_a_failed_local_write_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    location = open_location(tmp_path) / "data"
    location.put(b"old")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match="No space left"):
        location.put(b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert location.read() == b"old"


def test_credentials_are_never_shown(bucket, s3_options, caplog):
    caplog.set_level(logging.DEBUG, logger="lance_df")
    secret = s3_options["secret"]
    location = open_location(f"{bucket}/x", s3_options)
    said = [repr(location), str(location), repr(location / "y"), f"{location}"]
    for attempt in (
        lambda: (location / "missing").read(),
        lambda: open_location("s3://no-such-bucket-anywhere/x", s3_options).open(),
        lambda: open_location(f"{bucket}/x", {**s3_options, "secret": secret + "wrong"}).open(),
        lambda: open_location(f"{bucket}/x", {**s3_options, "no_such_option": secret}).open(),
        lambda: open_location("nosuchscheme://x", s3_options),
        lambda: list(open_location("s3://no-such-bucket-anywhere/x", s3_options).list()),
    ):
        try:
            attempt()
        except LanceError as error:
            said += [str(error), repr(error), *traceback.format_exception(error)]
    assert len(said) > 6
    assert secret not in "\n".join([*said, caplog.text])

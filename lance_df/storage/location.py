"""Locations: files and folders of stores, with a URI that is parsed once and then used like a path."""

from __future__ import annotations

import dataclasses
import inspect
import os
import posixpath
import re
import stat
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, unquote_to_bytes

from lance_df.errors import (
    CorruptDataError,
    InvalidInputError,
    LanceError,
    MissingDependencyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_df.records import dataclass
from lance_df.storage.local import LocalFiles
from lance_df.storage.local_files import check_regular, entries_of, read_start, remove_tree, replace
from lance_df.storage.options import S3_SCHEMES, check_options, filesystem_options, named_options
from lance_df.storage.schemes import (
    ALLOWED_BASE_SCHEMES,
    allowed_schemes,
    check_stored,
    is_chained,
    split_url,
    with_lower_scheme,
    without_local_host,
)
from lance_df.storage.source import (
    SMALL_FILE_BYTES,
    ByteSource,
    BytesSource,
    RemoteSource,
    open_local,
    read_whole,
)
from lance_df.storage.translate import encoding_advice
from lance_df.storage.translate import translate_errors as translate_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fsspec import AbstractFileSystem

_SCHEME = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.\-]*(://|::)")
# certainly relative, and within the folder
_PLAIN_NAMES = re.compile(r"[\w$\-]+(?:/[\w$\-]+)*(?:\.\w+)?", re.ASCII)
_PATTERN = re.compile(r"[*?[]")
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "az": "azure"}
_LOCAL = LocalFiles()
_OBJECT_STORES = frozenset({*_EXTRAS, "memory"})
_WEB = frozenset({"http", "https"})
_MAX_WHOLE_BYTES = 2**31 - 1  # the limit of protobuf messages; other files that are read whole are smaller


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a listing.

    ``mark`` is a value of the store that changes whenever the content does, such as the ETag of S3; empty if
    the store has none.
    """

    name: str
    size: int
    is_directory: bool
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Location:
    """A file or a folder of a store.

    Created by :func:`open_location`. `storage_options` are only in the filesystem object and never appear in
    a repr, message or log. ``options_elsewhere`` has the options of other locations, by the names that
    :meth:`elsewhere` receives. ``allowed_schemes`` are the URL schemes that files below may refer to, in
    addition to that of their own store.
    """

    uri: str
    path: str
    fs: AbstractFileSystem | LocalFiles = field(repr=False, compare=False)
    options_elsewhere: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict, repr=False, compare=False
    )
    allowed_schemes: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    @property
    def is_local(self) -> bool:
        return isinstance(self.fs, LocalFiles)

    @property
    def is_link(self) -> bool:
        """Whether this is a symbolic link of the local file system, whose target is elsewhere."""
        return self.is_local and os.path.islink(self.path)

    @property
    def name(self) -> str:
        return posixpath.basename(self.path.rstrip("/"))

    @property
    def is_replaced(self) -> bool:
        """Whether a table in ``memory://`` was created under this name since this location was opened."""
        if not self.uri.startswith("memory://"):
            return False
        from lance_df.storage.memory import store_of

        return (store_of(self.path) or self.fs) is not self.fs

    @property
    def identity(self) -> Hashable:
        """A key that is equal for locations of the same files with the same options; for use in memory only.

        Filesystem objects cannot be compared: fsspec creates one for each thread.
        """
        return (
            *(self.uri, type(self.fs), self.allowed_schemes),
            *(repr(self.fs.storage_args), repr(self.fs.storage_options)),
        )

    def __truediv__(self, relative: str) -> Location:
        """Join a trusted name. For names that were read from files, see :meth:`child`."""
        return Location(
            f"{self.uri.rstrip('/')}/{relative}",
            f"{self.path.rstrip('/')}/{relative}",
            self.fs,
            self.options_elsewhere,
            self.allowed_schemes,
        )

    def child(self, relative: str) -> Location:
        """Join a relative path that was read from a file.

        Raises
        ------
        CorruptDataError
            The path is empty, absolute, or leaves this folder, in plain or percent-encoded form.
        """
        if _PLAIN_NAMES.fullmatch(relative):
            return self / relative
        for text in (relative, unquote(relative)):
            parts = text.replace("\\", "/").split("/")
            if not text or text.startswith(("/", "\\")) or ".." in parts or "" in parts:
                raise CorruptDataError(
                    f"{self.uri}: the recorded path {relative!r} is not a path within this folder"
                )
            if _SCHEME.match(text) or "\0" in text or re.match(r"^[a-zA-Z]:", text):
                raise CorruptDataError(f"{self.uri}: the recorded path {relative!r} is not relative")
        return self / relative

    @property
    def _schemes(self) -> tuple[str, ...]:
        protocol = self.fs.protocol
        return (protocol,) if isinstance(protocol, str) else tuple(protocol)

    def allowing(self, uris: Iterable[str]) -> Location:
        """Return this location, allowing files to refer to URLs with the schemes of ``uris``."""
        schemes = [url[0] for uri in uris if (url := split_url(uri)) is not None]
        return dataclasses.replace(self, allowed_schemes=self.allowed_schemes.union(schemes))

    def elsewhere(self, uri: str, *names: str) -> Location:
        """Return another location that a stored file names; see :meth:`elsewhere_as_given`.

        Raises
        ------
        InvalidInputError
            A stored file may not refer to it (see :func:`lance_df.storage.schemes.check_stored`), or the URL
            is malformed.
        UnsupportedFeatureError, CorruptDataError
            As :func:`lance_df.storage.schemes.check_stored`.
        MissingDependencyError
            As :func:`open_location`.
        """
        is_named = uri.rstrip("/") in self.options_elsewhere
        allowed = self.allowing([uri] if is_named else []).allowed_schemes
        home = ("file", "") if self.is_local else split_url(self.uri) or (self._schemes[0], "")
        checked = check_stored(uri, source=self.uri, home=home, allowed=allowed)
        return self.elsewhere_as_given(checked, *names)

    def elsewhere_as_given(self, uri: str, *names: str) -> Location:
        """Return another location that a caller names; one in the same kind of store has the same options.

        If ``options_elsewhere`` has options for its URL or one of ``names``, these are used instead.

        Parameters
        ----------
        uri
            A URL, or a path without a scheme: a local path if this location is local, otherwise a path from
            the root of the same store (the same bucket).

        Raises
        ------
        InvalidInputError, MissingDependencyError
            As :func:`open_location`.
        UnsupportedFeatureError
            It is a chain of filesystems.
        """
        if is_chained(uri):
            raise UnsupportedFeatureError(f"chained URLs are not supported, got {uri!r:.200}")
        for name in (uri.rstrip("/"), *names):
            if name in self.options_elsewhere:
                return open_location(uri, self.options_elsewhere[name])
        url = split_url(uri)
        if self.is_local or (url is not None and url[0] not in self._schemes):
            return open_location(uri)
        if url is None:
            bucket = "" if self.path.startswith("/") else self.path.split("/", 1)[0]
            path = f"{bucket}/{uri.strip('/')}"
            return Location(f"{self.uri.split('://', 1)[0]}://{path}", path, self.fs)
        uri = with_lower_scheme(uri)
        return Location(uri.rstrip("/"), str(self.fs._strip_protocol(uri)).rstrip("/"), self.fs)

    def ancestor(self, relative: str) -> Location | None:
        """Return the folder in which this location is ``relative``, or None if the path does not end so."""
        tail = f"/{relative}"
        uri, path = self.uri.rstrip("/"), self.path.rstrip("/")
        if not (uri.endswith(tail) and path.endswith(tail)):
            return None
        return Location(
            uri[: -len(tail)], path[: -len(tail)], self.fs, self.options_elsewhere, self.allowed_schemes
        )

    def open(self) -> ByteSource:
        """Open for ranged reads.

        Raises
        ------
        NotFoundError
            There is no such file.
        StorageError
            It cannot be read.
        """
        return open_local(self.path) if self.is_local else self.open_sized(self._info_size())

    def open_sized(self, size: int) -> ByteSource:
        """Open a file whose size is known, which saves a request on remote stores.

        A small file is read completely with one request. Nothing is read yet of a larger one.

        Raises
        ------
        NotFoundError
            There is no such file, unless this is only detected by a later read.
        CorruptDataError
            A small file has another size.
        StorageError
            It cannot be read.
        """
        if self.is_local:
            return open_local(self.path)
        if size > SMALL_FILE_BYTES:
            return RemoteSource(self.fs, self.path, name=self.uri, size=size)
        data = self.read_start(size + 1)
        if len(data) != size:
            actual = "more" if len(data) > size else len(data)
            raise CorruptDataError(f"{self.uri}: the file has {actual} bytes, expected {size}")
        return BytesSource(self.uri, data)

    def open_whole(self) -> ByteSource:
        """Open a small file by reading all of it, with one request on remote stores."""
        return read_whole(self.path) if self.is_local else BytesSource(self.uri, self.read())

    def check_file(self) -> None:
        """Raise `CorruptDataError` if the name exists in a local store but is not a regular file."""
        if self.is_local:
            check_regular(self.path)

    def read(self, *, max_bytes: int = _MAX_WHOLE_BYTES) -> bytes:
        """Return the whole content of a small file.

        Parameters
        ----------
        max_bytes
            The size limit; larger files are invalid. The default is the limit of protobuf messages.

        Raises
        ------
        NotFoundError
            There is no such file.
        CorruptDataError
            The file is larger. In a local store, nothing is read then.
        StorageError
            It cannot be read.
        """
        if self.is_local:
            source = open_local(self.path)
            self._check_size(source.size, max_bytes)
            return source.read_range(0, source.size).to_pybytes()
        kind: Any = type(self.fs)
        with translate_errors(self.uri):
            data: bytes = self.fs.cat_file(self.path, **one_request(kind))
        self._check_size(len(data), max_bytes)
        return data

    def _check_size(self, size: int, max_bytes: int) -> None:
        if size > max_bytes:
            raise CorruptDataError(f"{self.uri}: the file has {size:,} bytes, expected at most {max_bytes:,}")

    def read_start(self, num_bytes: int) -> bytes:
        """Return the first ``num_bytes`` of a file, or all of a shorter one, in one request."""
        with translate_errors(self.uri):
            if self.is_local:
                return read_start(self.path, num_bytes)
            data: bytes = self.fs.cat_file(self.path, start=0, end=num_bytes)
        return data

    def exists(self) -> bool:
        """Whether there is a file or a folder of this name."""
        if self.is_local:
            return self._status() is not None
        with translate_errors(self.uri):
            return bool(self.fs.exists(self.path))

    def is_file(self) -> bool:
        """Whether there is a file of this name."""
        if self.is_local:
            status = self._status()
            return status is not None and stat.S_ISREG(status.st_mode)
        with translate_errors(self.uri):
            return bool(self.fs.isfile(self.path))

    def _status(self) -> os.stat_result | None:
        """Return the status of a local file or folder, or None if there certainly is none."""
        try:
            with translate_errors(self.uri):
                return os.stat(self.path)
        except NotFoundError:
            return None

    def names(self) -> list[str]:
        """Return the names of files and folders in this folder, in any order; none if it does not exist."""
        if not self.is_local:
            return [entry.name for entry in self.list()]
        try:
            with translate_errors(self.uri):
                return os.listdir(self.path)
        except NotFoundError:
            return []

    def list(self) -> Iterator[Entry]:
        """Yield the entries of this folder in the order of names; nothing if it does not exist.

        Raises
        ------
        UnsupportedFeatureError
            It is on a web server, which cannot list files.
        """
        self.check_listable()
        try:
            with translate_errors(self.uri):
                if self.is_local:
                    yield from sorted((Entry(*each) for each in entries_of(self.path)), key=_name_of)
                    return
                listed = self.fs.ls(self.path, detail=True, refresh=True)
        except NotFoundError:
            return
        prefix = self.path.rstrip("/")
        entries = (
            Entry(
                posixpath.basename(str(info["name"]).rstrip("/")),
                int(info.get("size") or 0),
                info["type"] == "directory",
                str(info.get("ETag") or info.get("etag") or ""),
            )
            for info in listed
            if str(info["name"]).rstrip("/") != prefix
        )
        yield from sorted(entries, key=_name_of)

    @property
    def is_on_web_server(self) -> bool:
        """Whether files are read by HTTP from a web server, which can neither list nor write files."""
        return not self.is_local and bool(_WEB.intersection(self._schemes))

    def check_listable(self) -> None:
        """Raise `UnsupportedFeatureError` for a location on a web server, which cannot list files."""
        if self.is_on_web_server:
            raise UnsupportedFeatureError(
                f"{self.uri}: a web server cannot list files, so the newest version and tables in folders "
                "cannot be found. Open a table at a known version (version=3), copy it to a local folder, "
                "or use the URL of its store, such as s3:// or gs://"
            )

    def check_is_folder(self) -> None:
        """Raise `StorageError` for a local file or device, where there may only be a folder."""
        if self.is_local and os.path.exists(self.path) and not os.path.isdir(self.path):
            raise StorageError(f"{self.uri}: expected a folder, got a file")

    def put(self, data: bytes, *, durable: bool = True) -> None:
        """Write a complete file, replacing an existing one.

        Without ``durable``, a local file is written faster, but there may be no file for a moment, and a
        crash of the machine may leave an empty one.
        """
        try:
            with translate_errors(self.uri):
                if self.is_local:
                    replace(self.path, data, durable=durable)
                else:
                    self.make_parent()
                    self.fs.pipe_file(self.path, data)
        except NotFoundError as err:
            raise StorageError(f"{self.uri}: cannot create a file here") from err

    def make_parent(self) -> None:
        """Create the folder above a file on remote stores with folders; object stores have none.

        Raises
        ------
        UnsupportedFeatureError
            It is on a web server.
        """
        if self.is_on_web_server:
            raise UnsupportedFeatureError(
                f"{self.uri}: a web server can only be read. Use the URL of its store, such as s3:// or "
                "gs://, or copy the table to a local folder"
            )
        if not _OBJECT_STORES.intersection(self._schemes):
            self.fs.makedirs(posixpath.dirname(self.path), exist_ok=True)

    def remove(self) -> None:
        """Remove a file if it exists."""
        try:
            with translate_errors(self.uri):
                self.fs.rm_file(self.path)
        except NotFoundError:
            pass

    def remove_tree(self) -> None:
        """Remove a folder with its contents if it exists.

        If it is a symbolic link, only the link is removed.
        """
        try:
            with translate_errors(self.uri):
                if self.is_local:
                    remove_tree(self.path)
                elif not _PATTERN.search(self.path):
                    self.fs.rm(self.path, recursive=True)
                else:
                    self._remove_tree_of_pattern()
        except NotFoundError:
            pass

    def _remove_tree_of_pattern(self) -> None:
        """Remove a folder whose path fsspec would treat as a pattern."""
        entries: Mapping[str, Mapping[str, Any]] = self.fs.find(self.path, withdirs=True, detail=True)
        for path in sorted(entries, reverse=True):
            if entries[path]["type"] != "directory":
                self.fs.rm_file(path)
            else:  # object stores have none
                with suppress(OSError):
                    self.fs.rmdir(path)

    def remove_empty_folder(self) -> None:
        """Remove a local folder if it is empty; folders of object stores vanish with their last file."""
        if self.is_local:
            with suppress(OSError, UnicodeEncodeError):  # no folder has a name that cannot be encoded
                os.rmdir(self.path)

    def _info_size(self) -> int:
        with translate_errors(self.uri):
            info: Mapping[str, Any] = self.fs.info(self.path)
        if info["type"] == "directory":
            raise NotFoundError(f"{self.uri}: is a folder, not a file")
        return int(info["size"])


def open_location(uri: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Location:
    """Turn a path or URL into a :class:`Location`.

    Parameters
    ----------
    uri
        A local path (relative ones are made absolute), or ``scheme://…`` for any scheme of fsspec. In
        ``file://`` URLs, percent-encoded characters are decoded, and the host must be ``localhost`` or empty.
    storage_options
        Passed to the fsspec filesystem: credentials, endpoint, region … ``allowed_base_schemes`` are the URL
        schemes that files below may refer to; see :func:`lance_df.storage.schemes.check_stored`.

    Raises
    ------
    InvalidInputError
        The scheme is unknown, the URL is malformed, ``allowed_base_schemes`` are not names, S3 does not have
        an option or its value has the wrong type, a local path cannot be encoded, or its URL names another
        machine.
    MissingDependencyError
        The scheme needs an extra that is not installed.
    StorageError
        The path is relative, and the working directory does not exist.
    """
    try:
        text = os.fspath(uri)
        is_usable = text != "" and "\0" not in text
    except TypeError:  # bytes among them
        is_usable = False
    if not is_usable:
        problem = " without NUL characters" if isinstance(uri, str) and uri else ""
        raise InvalidInputError(f"expected a path or URL{problem}, got {uri!r:.200}")
    options = named_options(storage_options)
    allowed = allowed_schemes(options.pop(ALLOWED_BASE_SCHEMES, ()))
    location = _opened(text, options)
    return dataclasses.replace(location, allowed_schemes=allowed) if allowed else location


def _opened(text: str, storage_options: Mapping[str, Any]) -> Location:
    if not _SCHEME.match(text):
        path = absolute_path(os.path.expanduser(text))
        return Location(path, path, _LOCAL)
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    from lance_df.storage.filesystems import renewed_at_fork

    text = with_lower_scheme(without_local_host(text))
    scheme = text.split("://", 1)[0]
    try:
        if scheme in S3_SCHEMES:
            check_options(scheme, storage_options, fsspec.get_filesystem_class(scheme))
        fs, path = fsspec.core.url_to_fs(text, **filesystem_options(scheme, storage_options))
    except ImportError as err:
        extra = _EXTRAS.get(scheme)
        remedy = f"pip install 'lance_df[{extra}]'" if extra else "install its fsspec package"
        raise MissingDependencyError(
            f"{scheme}:// requires a package that is not installed: {remedy}"
        ) from err
    except LanceError:
        raise
    except OSError as err:  # some filesystems send requests when they are created
        reason = os.strerror(err.errno) if err.errno else type(err).__name__
        raise StorageError(f"{scheme}:// cannot be opened: {reason}") from None
    except Exception:  # noqa: BLE001 - any library may raise it
        # The text of these errors may contain the storage options.
        raise InvalidInputError(
            f"{scheme}:// cannot be opened: unknown scheme, malformed URL or invalid storage options"
        ) from None
    renewed_at_fork(fs)
    if isinstance(fs, LocalFileSystem):
        # the path of a URL may be percent-encoded, but fsspec does not decode it
        path = _unquoted(path) if scheme == "file" else path
        if not text.partition("://")[2]:
            raise InvalidInputError(f"{text}: names no path; expected a URL such as file:///data/t.lance")
        if "\0" in path:
            raise InvalidInputError(f"expected a path or URL, got {text!r}")
        path = absolute_path(path)
        return Location(path, path, _LOCAL)
    if scheme in S3_SCHEMES and not text.partition("://")[2].strip("/"):
        raise InvalidInputError(f"{text}: names no bucket; expected a URL such as s3://bucket/t.lance")
    if "://" in path:  # such as of http
        return Location(path, path, fs)
    if scheme != "memory":
        return Location(f"{scheme}://{path.lstrip('/')}", path, fs)
    from lance_df.storage.memory import store_of

    return Location(f"memory://{path}", path, store_of(path) or fs)


def _unquoted(path: str) -> str:
    try:
        return os.fsdecode(unquote_to_bytes(path.encode("utf-8", "surrogateescape")))
    except UnicodeEncodeError as err:
        raise InvalidInputError(f"{path}: {encoding_advice(err)}") from None


def absolute_path(path: str) -> str:
    """Return the absolute form of a local path.

    Raises
    ------
    InvalidInputError
        The operating system cannot encode the path.
    StorageError
        The path is relative, and the working directory does not exist.
    """
    try:
        os.fsencode(path)
        return os.path.abspath(path)
    except UnicodeEncodeError as err:
        raise InvalidInputError(f"{path}: {encoding_advice(err)}") from None
    except FileNotFoundError:
        raise StorageError(
            f"{path}: the path is relative, but the working directory of this process no longer exists; "
            "change to another folder, or give an absolute path"
        ) from None


def _name_of(entry: Entry) -> str:
    return entry.name


@lru_cache(maxsize=64)
def one_request(kind: type[AbstractFileSystem]) -> dict[str, int]:
    """Return read arguments that keep filesystems from requesting the size first to read in parts."""
    parameters = inspect.signature(getattr(kind, "_cat_file", kind.cat_file)).parameters
    return {name: 1 for name in ("max_concurrency", "concurrency") if name in parameters}

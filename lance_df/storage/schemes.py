"""Decide from the text of a URL, before opening it, whether a stored file may refer to it.

Manifests refer to base paths, and rows to external blobs, by URLs that the creator of the file chose. fsspec
opens many kinds of URLs: some send requests, some wrap others, some render templates. A stored file may
therefore only refer to the kind of store that contains the table, and to kinds that the caller allows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError

ALLOWED_BASE_SCHEMES: Final = "allowed_base_schemes"
"""The storage option with the input of :func:`allowed_schemes`; it is not passed to filesystems."""

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]*)://(.*)", re.DOTALL)
_LOCAL: Final = frozenset({"file", "local"})
OBJECT_STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
_MEMORY: Final = frozenset({"memory"})
_WEB: Final = frozenset({"http", "https"})
_KINDS: Final = (_LOCAL, OBJECT_STORES, _MEMORY)
_NAME = re.compile(r"[a-z][a-z0-9+.\-]*")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_LOCAL_HOSTS: Final = frozenset({"", "localhost"})
_DRIVE = re.compile(r"[a-zA-Z]:")  # of Windows


def is_chained(text: str) -> bool:
    """Whether fsspec would parse a text as a chain of filesystems: ``reference::…``, ``zip://a::s3://b``."""
    return "::" in text and ("://" in text or re.match(r"[a-zA-Z][a-zA-Z0-9+.\-]*::", text) is not None)


def split_url(text: str) -> tuple[str, str] | None:
    """Return the lower-case scheme of a URL and the part after ``://``; None for a path."""
    match = _URL.fullmatch(text)
    return None if match is None else (match[1].lower(), match[2])


def with_lower_scheme(text: str) -> str:
    """Return a URL with its scheme in lower case, as fsspec requires it; other texts are not changed."""
    url = split_url(text)
    return text if url is None else f"{url[0]}://{url[1]}"


def without_local_host(text: str) -> str:
    """Return the URL of a local file without the host ``localhost``; other texts are not changed.

    Raises
    ------
    InvalidInputError
        The URL names a file of another machine.
    """
    url = split_url(text)
    if url is None or url[0] not in _LOCAL:
        return text
    host, _, path = url[1].partition("/")
    if not host or (os.name == "nt" and _DRIVE.match(host)):
        return text
    if host.lower() not in _LOCAL_HOSTS:
        raise InvalidInputError(
            f"{text!r:.200}: the URL has the host {host!r:.60}, but URLs of local files have no host and "
            f"an absolute path, such as {url[0]}:///data/t.lance; give a relative path without {url[0]}://"
        )
    return f"{url[0]}:///{path}"


def allowed_schemes(names: object) -> frozenset[str]:
    """Return the schemes that a caller allows, in lower case.

    Parameters
    ----------
    names
        Names such as ``"https"``, or one string with comma-separated names.

    Raises
    ------
    InvalidInputError
        The value is something else.
    """
    texts = names.split(",") if isinstance(names, str) else names
    if not isinstance(texts, Iterable):
        raise InvalidInputError(
            f"{ALLOWED_BASE_SCHEMES} must be a list of names such as 'https', got {names!r:.60}"
        )
    schemes = [text.strip().lower() if isinstance(text, str) else "" for text in texts]
    if not all(_NAME.fullmatch(scheme) for scheme in schemes):
        raise InvalidInputError(
            f"{ALLOWED_BASE_SCHEMES} must be a list of names such as 'https', got {names!r:.60}"
        )
    return frozenset(schemes)


def with_allowed_schemes(
    storage_options: Mapping[str, Any] | None, names: Iterable[str] | None
) -> Mapping[str, Any] | None:
    """Return storage options that also hold the schemes of an argument ``allowed_base_schemes``."""
    if names is None:
        return storage_options
    from lance_df.storage.options import named_options

    options = named_options(storage_options)
    schemes = allowed_schemes(names) | allowed_schemes(options.get(ALLOWED_BASE_SCHEMES, ()))
    return {**options, ALLOWED_BASE_SCHEMES: tuple(sorted(schemes))}


def check_stored(text: str, *, source: str, home: tuple[str, str], allowed: frozenset[str]) -> str:
    """Check a URL or path in a stored file, and return it with its scheme in lower case.

    Parameters
    ----------
    source
        The name of the table in messages.
    home
        The scheme of the table (``file`` for a local one), and the part after ``://``.
    allowed
        Additional schemes that the caller allows.

    Raises
    ------
    InvalidInputError
        Its scheme is not allowed; the message says how to allow it.
    UnsupportedFeatureError
        It is a chain of filesystems.
    CorruptDataError
        It is neither a URL nor a path, or it names another machine.
    """
    if is_chained(text):
        raise UnsupportedFeatureError(
            f"{source}: the stored URL {text!r:.200} is a chained URL, which is not allowed for stored files"
        )
    url = split_url(text)
    _check_text(text, url, source)
    if url is None:
        return text
    scheme, rest = url
    if scheme not in allowed and not _is_near(url, home):
        raise InvalidInputError(
            f"{source}: the stored URL {text!r:.200} is in another kind of store than the table; if you "
            f"trust it, open the table with {ALLOWED_BASE_SCHEMES}=[{scheme!r}]"
        )
    return f"{scheme}://{rest}"


def _check_text(text: str, url: tuple[str, str] | None, source: str) -> None:
    head = text if url is None else f"{url[0]}://{url[1].partition('/')[0]}"
    has_control = "\0" in text or _CONTROLS.search(text[:1] if url is None else head)
    if not text or text[0].isspace() or has_control:
        raise CorruptDataError(f"{source}: the stored path {text!r:.200} is neither a path nor a URL")
    on_network = text.startswith("\\\\") or (os.name == "nt" and text.startswith(("//", "/\\", "\\/")))
    if url is not None and url[0] in _LOCAL:
        on_network = url[1].partition("/")[0].lower() not in _LOCAL_HOSTS or url[1].startswith(("//", "/\\"))
    if on_network:
        raise CorruptDataError(f"{source}: the stored path {text!r:.200} refers to another machine")


def _is_near(url: tuple[str, str], home: tuple[str, str]) -> bool:
    """Whether a URL is in the table's kind of store; for HTTP, also on the same host."""
    for kind in _KINDS:
        if url[0] in kind or home[0] in kind:
            return url[0] in kind and home[0] in kind
    return url[0] == home[0] and (url[0] not in _WEB or _host(url) == _host(home))


def _host(url: tuple[str, str]) -> str:
    return url[1].partition("/")[0].lower()

"""Storage options: those of fsspec filesystems and, for S3, the names used by Lance and similar libraries."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from lance_df.errors import InvalidInputError

S3_SCHEMES = frozenset({"s3", "s3a"})
# Filesystems that cache listings, which other writers invalidate.
_CACHING_SCHEMES = S3_SCHEMES | {"gs", "gcs", "abfs", "az"}
# Lower-case names without the optional prefix.
_PREFIX = "aws_"
_S3FS_NAMES = {
    "access_key_id": "key",
    "secret_access_key": "secret",
    "session_token": "token",
    "token": "token",
    "endpoint": "endpoint_url",
    "endpoint_url": "endpoint_url",
    "skip_signature": "anon",
}
_REGION_NAMES = frozenset({"region", "default_region"})
_TEXTS = (_S3FS_NAMES.keys() - {"skip_signature"}) | {*_S3FS_NAMES.values(), *_REGION_NAMES} - {"anon"}
_MAPPINGS = frozenset({"client_kwargs", "config_kwargs", "s3_additional_kwargs"})
# tuning options of Lance's stores that s3fs does not need
_NEEDLESS = frozenset(
    {
        *("allow_http", "virtual_hosted_style_request", "conditional_put", "copy_if_not_exists"),
        *("timeout", "connect_timeout", "pool_idle_timeout", "pool_max_idle_per_host", "user_agent"),
        *("download_retry_count", "client_max_retries", "client_retry_timeout", "unsigned_payload"),
        *("checksum_algorithm", "s3_express", "imdsv1_fallback", "metadata_endpoint", "disable_tagging"),
        *("http1_only", "http2_only", "expires_at_millis", "refresh_offset_millis", "randomize_addresses"),
    }
)
# options of every fsspec filesystem
_FSSPEC_NAMES = frozenset(
    {"skip_instance_cache", "use_listings_cache", "listings_expiry_time", "max_paths", "batch_size"}
)


def named_options(options: Any) -> dict[str, Any]:
    """Return storage options as a dictionary.

    Raises
    ------
    InvalidInputError
        The options are not a mapping with names as keys. The message contains no values, which may be secret.
    """
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInputError(f"storage_options must be a dict, got {type(options).__name__}")
    for name in options or {}:
        if not isinstance(name, str):
            raise InvalidInputError(f"names of storage options must be strings, got {type(name).__name__}")
    return dict(options or {})


def filesystem_options(scheme: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments for the fsspec filesystem of a scheme."""
    renamed = s3_options(options) if scheme in S3_SCHEMES else dict(options or {})
    if scheme in _CACHING_SCHEMES:
        renamed["use_listings_cache"] = False
    return renamed


def check_options(scheme: str, options: Mapping[str, Any] | None, kind: Any) -> None:
    """Check that the S3 filesystem accepts the options, which it would otherwise ignore or fail with later.

    Parameters
    ----------
    kind
        The class of the filesystem.

    Raises
    ------
    InvalidInputError
        There is no such option, or its value has another type; the message contains its name but no value.
    """
    if scheme not in S3_SCHEMES:
        return
    parameters = inspect.signature(kind.__init__).parameters.values()
    known = {each.name for each in parameters if each.kind is not each.VAR_KEYWORD} | _FSSPEC_NAMES
    unknown = sorted(str(name) for name in s3_options(options) if name not in known)
    if unknown:
        import difflib

        near = difflib.get_close_matches(unknown[0], [*_S3FS_NAMES, *_REGION_NAMES, *known], 1)
        suggestion = f" (did you mean {near[0]!r}?)" if near else ""
        raise InvalidInputError(
            f"{scheme}:// has no storage option {unknown[0]!r}{suggestion}; the options are access_key_id, "
            "secret_access_key, session_token, region, endpoint, skip_signature, and those of s3fs"
        )
    for name, value in (options or {}).items():
        plain = name.lower().removeprefix(_PREFIX)
        wanted: type = Mapping if plain in _MAPPINGS else str
        is_checked = plain in _TEXTS or plain in _MAPPINGS
        if is_checked and not isinstance(value, wanted | None):
            what = "text" if wanted is str else "a mapping"
            raise InvalidInputError(f"the storage option {name!r} must be {what}, got {type(value).__name__}")


def s3_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options with the names of s3fs; options without another name are not changed."""
    renamed: dict[str, Any] = {}
    client: dict[str, Any] = {}
    for name, value in (options or {}).items():
        plain = name.lower().removeprefix(_PREFIX)
        if plain in _REGION_NAMES:
            client["region_name"] = value
        elif plain in _S3FS_NAMES:
            renamed[_S3FS_NAMES[plain]] = _as_flag(value) if plain == "skip_signature" else value
        elif plain not in _NEEDLESS:
            renamed[name] = value
    if client:
        renamed["client_kwargs"] = {**client, **(renamed.get("client_kwargs") or {})}
    return renamed


def _as_flag(value: object) -> bool:
    return str(value).lower() in ("true", "1", "yes", "on")

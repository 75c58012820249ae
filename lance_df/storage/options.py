"""Storage options: those of fsspec's filesystems, and for S3 also the names that Lance and its peers use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

S3_SCHEMES = frozenset({"s3", "s3a"})
# Filesystems that keep listings, which other writers make wrong.
_CACHING_SCHEMES = S3_SCHEMES | {"gs", "gcs", "abfs", "az"}
# Lower-case names without the prefix that they may have.
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
_NEEDLESS = frozenset({"allow_http", "virtual_hosted_style_request", "conditional_put"})


def filesystem_options(scheme: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the fsspec filesystem of a scheme is made with."""
    renamed = s3_options(options) if scheme in S3_SCHEMES else dict(options or {})
    if scheme in _CACHING_SCHEMES:
        renamed["use_listings_cache"] = False
    return renamed


def s3_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return options with the names of s3fs; those that it does not share with others stay as they are."""
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

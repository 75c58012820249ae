"""Properties and registration of `DirectoryNamespace` as a client of the package ``lance_namespace``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from lance_df.errors import InvalidInputError, UnsupportedFeatureError

_STORAGE: Final = "storage."
# properties of pylance's class that tune or count what there is no need to here
_TUNING: Final = frozenset(
    {
        "inline_optimization_enabled",
        "ops_metrics_enabled",
        "vend_input_storage_options",
        "vend_input_storage_options_refresh_interval_millis",
    }
)


def storage_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the storage options among properties.

    Raises
    ------
    InvalidInputError
        A property is unknown.
    UnsupportedFeatureError
        A property requests temporary credentials.
    """
    options: dict[str, Any] = {}
    for name, value in properties.items():
        if name.startswith(_STORAGE):
            options[name.removeprefix(_STORAGE)] = value
        elif name.startswith("credential_vendor."):
            raise UnsupportedFeatureError(
                f"property {name!r} is not supported: temporary credentials cannot be issued; pass the "
                "credentials of readers as storage options"
            )
        elif name not in _TUNING and not name.startswith("dynamic_context_provider."):
            raise InvalidInputError(
                f"unknown property {name!r}; the properties are root, manifest_enabled, dir_listing_enabled "
                "and storage.*"
            )
    return options


def is_true(name: str, value: object) -> bool:
    """Return a setting, which may be text, as a bool.

    Raises
    ------
    InvalidInputError
        The setting is neither true nor false.
    """
    text = str(value).lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"{name} is {value!r:.60}, expected true or false")
    return text == "true"


def register_client(client: type) -> None:
    """Register a class as a ``lance_namespace.LanceNamespace``, if the program has imported that package.

    The import takes long, and a program that requests clients of ``lance_namespace`` has already imported it.
    """
    if (package := sys.modules.get("lance_namespace")) is not None:
        package.LanceNamespace.register(client)

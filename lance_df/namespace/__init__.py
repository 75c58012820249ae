"""Directory namespaces and partitioned namespaces: the partition spec, scans, pruning, changes and checks.

`DirectoryNamespace` is implemented in `lance_df.api`. It can also be imported from here, as in pylance:
``lance_namespace`` opens it as ``connect("lance_df.namespace.DirectoryNamespace", {"root": …})``.
"""

from importlib import import_module
from typing import Any

__all__ = ["DirectoryNamespace"]


def __getattr__(name: str) -> Any:
    if name != "DirectoryNamespace":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    client = import_module("lance_df.api.directory.namespace").DirectoryNamespace
    import_module("lance_df.api.namespaces.client").register_client(client)
    return client

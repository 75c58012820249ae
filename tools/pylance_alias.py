"""Let `import lance` mean `lance_df`, in this process: `install`.

Names that a program imports and the library does not have are stand-ins, which fail when they are used: what
does not use them runs. `add_stand_ins` gives them to a pylance of another release than the program's.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

_ALIAS, _OWN = "lance", "lance_df"


class MissingName:
    """A name of pylance that lance_df does not have."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _fail(self, *_: object, **__: object) -> NoReturn:
        raise AttributeError(f"there is no {self._name}")

    __call__ = __iter__ = __enter__ = _fail

    def __getattr__(self, name: str) -> NoReturn:
        self._fail()

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()


class _Missing(ModuleType):
    """A module of pylance that lance_df does not have."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # pylance's compiled module has much that is public elsewhere
        if self.__name__ == f"{_ALIAS}.lance":
            for home in (_OWN, f"{_OWN}.optimize", f"{_OWN}.fragment"):
                if (found := getattr(importlib.import_module(home), name, None)) is not None:
                    return found
        return MissingName(f"{self.__name__.removeprefix(_ALIAS + '.')}.{name}")


class _Finder(MetaPathFinder, Loader):
    """Finds ``lance.x`` as ``lance_df.x``."""

    def __init__(self, names: Iterable[tuple[str, str]]) -> None:
        self._names = sorted(set(names))
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != _ALIAS and not fullname.startswith(f"{_ALIAS}."):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        try:
            module = importlib.import_module(_OWN + spec.name.removeprefix(_ALIAS))
        except ModuleNotFoundError as err:
            if not (err.name or "").startswith(_OWN):
                raise
            return _Missing(spec.name)
        self._specs[spec.name] = module.__spec__
        for name in [name for home, name in self._names if home == spec.name]:
            _add_stand_in(module, name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system has bound: the module has run under its own name."""
        assert module.__spec__ is not None
        if (own := self._specs.get(module.__spec__.name)) is not None:
            module.__spec__ = own


def install(names: Iterable[tuple[str, str]] = ()) -> None:
    """Let ``lance`` and the modules in it be those of lance_df; `names` are imported from them somewhere."""
    sys.meta_path.insert(0, _Finder(names))
    for module in [name for name in sys.modules if name == _ALIAS or name.startswith(f"{_ALIAS}.")]:
        del sys.modules[module]
    importlib.import_module(_ALIAS)
    # what programs reach by the compiled part of a dataset is public here
    importlib.import_module(f"{_OWN}.dataset").LanceDataset._ds = property(lambda dataset: dataset)


def add_stand_ins(names: Iterable[tuple[str, str]]) -> None:
    """Add the names that pylance, as it is installed, does not have."""
    for home, name in names:
        try:
            module = importlib.import_module(home)
        except ModuleNotFoundError:
            module = sys.modules[home] = _Missing(home)
        _add_stand_in(module, name)


def _add_stand_in(module: ModuleType, name: str) -> None:
    path = f"{module.__name__}.{name}"
    if not hasattr(module, name) and not _is_module(path):
        setattr(module, name, MissingName(path.partition(".")[2]))


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what should hold it is no package
        return False


def imported_names(folder: Path) -> Iterator[tuple[str, str]]:
    """Return the modules and names of ``from lance… import …`` in the Python files of a folder."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == _ALIAS:
                yield from ((node.module or "", each.name) for each in node.names)

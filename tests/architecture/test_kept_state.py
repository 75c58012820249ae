"""Only `lance_df.cache` keeps data of tables for later statements: other state of modules is listed here."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "lance_df"
_MUTABLE = {
    *("dict", "list", "set", "OrderedDict", "defaultdict", "deque", "Counter"),
    *("WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "lru_cache", "cache", "TableCache"),
}

# What the program itself bounds: kernels, clients, threads, constants that are computed when they are needed.
OF_THE_PROCESS = {
    "arrow_classes._unreadable",
    "cache.process.PROCESS",
    "compute.calculator._made",
    "engine.tables.parts._tables",
    "engine.tables.plain_table._context",
    "exits._busy",
    "exits._functions",
    "exits._given",
    "exits._parked",
    "file.v2.writer.num_threads",
    "forks._locks",
    "storage.filesystems._opened",
    "storage.local._local_files",
    "storage.location.one_request",
    "storage.memory._stores",
    "storage.mapped_pages._advise",
    "storage.mapped_pages._mapped",
    "table.commit.state.library_version",
    "table.metadata.external_store_dynamodb._check_keys",
    "table.metadata.external_store_dynamodb._client",
    "table.writing.uncommitted._watching",
}
# Results of pure functions, bounded in number and, by their arguments, in size.
OF_FUNCTIONS = {
    "encodings.dictionary.encode._sample",
    "encodings.codecs.encode_text._former",
    "file.v2.small_file._column_metadata",
    "format.column_metadata._encodings",
    "format.file_metadata._common_schema",
    "format.page_layout_messages._parse_short",
    "namespace.pruning.partition_terms._normal_term",
    "namespace.pruning.partition_terms._type_of",
    "namespace.spec.partition_values._refusal",
    "records._init_code",
    "sql.substitution._placeholders",
    "table.maintenance.zone_map_files._descriptor",
    "table.maintenance.zone_map_files._encoded_counts",
    "table.maintenance.zone_map_files._schema",
    "table.maintenance.zones.zone_schema",
}
# What goes with an object that it is about, and is no larger than that.
OF_OBJECTS = {
    "engine.tables.names._all_names",
    "namespace.changes.partition_index._known",
    "namespace.changes.publish._lines",
    "namespace.pruning.spec_members._known",
    "spark.decimals._known",
    "spark.folders._folders",
    "spark.folders._views",
}


def called(node: ast.expr) -> str | None:
    """Return the last name of what is called, through subscripts and calls of calls."""
    match node:
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return called(inner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return None


def is_mutable(value: ast.expr) -> bool:
    """Return whether a value of a module is empty and to be filled, or a cache."""
    match value:
        case ast.Dict(keys=items) | ast.List(elts=items) | ast.Set(elts=items):
            return not items
        case ast.Call():
            return called(value) in _MUTABLE and not (called(value) in ("set", "dict", "list") and value.args)
    return False


def kept(source: str) -> set[str]:
    """Return the names of a module under which something may be kept."""
    found = set()
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_mutable(value):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if is_mutable(value):
                found.add(name)
            case ast.FunctionDef() if any(called(each) in _MUTABLE for each in node.decorator_list):
                found.add(node.name)
    return found


def test_modules_keep_only_what_is_listed():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found |= {f"{module}.{name}" for name in kept(path.read_text(encoding="utf-8"))}
    assert found == OF_THE_PROCESS | OF_FUNCTIONS | OF_OBJECTS


def test_what_is_kept_is_seen():
    assert kept("a = {}\nb: dict[int, str] = OrderedDict()\n") == {"a", "b"}
    assert kept("@lru_cache(maxsize=4)\ndef f(): ...\n@functools.cache\ndef g(): ...") == {"f", "g"}
    assert kept("h = lru_cache(4)(g)\ni = WeakKeyDictionary()") == {"h", "i"}
    assert kept("j: WeakSet[C] = WeakSet()") == {"j"}
    assert kept("a = {1: 2}\nb = frozenset()\nc = list(range(3))\ndef f(): x = {}") == set()

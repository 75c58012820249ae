"""pylance's `DirectoryNamespace` and ours change one root in turn, and see the same after every change."""

import io
import random
from urllib.parse import unquote

import lance
import lance_namespace as requests
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace as TheirNamespace

from lance_df import DirectoryNamespace
from lance_df.errors import LanceError

ROWS = pa.table({"a": [1, 2, 3]})
NAMES = ("a", "b", "c")
PROPERTIES = {"k": "v", "é": ""}


def as_stream(rows):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


class Theirs:
    def __init__(self, root, *, manifest, listing):
        options = {"manifest_enabled": str(manifest).lower(), "dir_listing_enabled": str(listing).lower()}
        self.root = TheirNamespace(root=str(root), **options)

    def change(self, kind, parts, properties):
        match kind:
            case "create_namespace":
                request = requests.CreateNamespaceRequest(id=parts, properties=properties)
                self.root.create_namespace(request)
            case "drop_namespace":
                self.root.drop_namespace(requests.DropNamespaceRequest(id=parts))
            case "create_table":
                request = requests.CreateTableRequest(id=parts, properties=properties)
                self.root.create_table(request, as_stream(ROWS))
            case "overwrite":
                request = requests.CreateTableRequest(id=parts, mode="overwrite")
                self.root.create_table(request, as_stream(ROWS.slice(1)))
            case "declare":
                self.root.declare_table(requests.DeclareTableRequest(id=parts))
            case "drop_table":
                self.root.drop_table(requests.DropTableRequest(id=parts))
            case "deregister":
                self.root.deregister_table(requests.DeregisterTableRequest(id=parts))

    def namespace(self, parts):
        namespaces = self.root.list_namespaces(requests.ListNamespacesRequest(id=parts)).namespaces
        tables = self.root.list_tables(requests.ListTablesRequest(id=parts)).tables
        properties = self.root.describe_namespace(requests.DescribeNamespaceRequest(id=parts)).properties
        return sorted(namespaces), sorted(tables), properties or None

    def table(self, parts):
        self.root.table_exists(requests.TableExistsRequest(id=parts))
        found = self.root.describe_table(requests.DescribeTableRequest(id=parts))
        return unquote(found.location.removeprefix("file://")), found.properties or None


class Ours:
    def __init__(self, root, *, manifest, listing):
        self.root = DirectoryNamespace(root, manifest_enabled=manifest, dir_listing_enabled=listing)

    def change(self, kind, parts, properties):
        match kind:
            case "create_namespace":
                self.root.create_namespace(parts, properties)
            case "drop_namespace":
                self.root.drop_namespace(parts)
            case "create_table":
                self.root.create_table(parts, ROWS, properties)
            case "overwrite":
                self.root.create_table(parts, ROWS.slice(1), mode="overwrite")
            case "declare":
                self.root.declare_table(parts)
            case "drop_table":
                self.root.drop_table(parts)
            case "deregister":
                self.root.deregister_table(parts)

    def namespace(self, parts):
        properties = self.root.describe_namespace(parts).properties
        return (
            self.root.list_namespaces(parts).namespaces,
            self.root.list_tables(parts).tables,
            properties or None,
        )

    def table(self, parts):
        self.root.table_exists(parts)
        found = self.root.describe_table(parts)
        return found.location, found.properties or None


def tables_and_namespaces(side, namespaces, *, with_root_properties):
    seen = {}
    for parts in namespaces:
        seen[parts] = side.namespace(list(parts))
        for name in seen[parts][1]:
            location, properties = side.table([*parts, name])
            # pylance does not tell those of tables that are listed as well
            seen[*parts, name, "table"] = location, properties if parts or with_root_properties else None
    return seen


CHANGES = (
    "create_namespace",
    "drop_namespace",
    "create_table",
    "overwrite",
    "declare",
    "drop_table",
    "deregister",
)


@pytest.mark.parametrize(("manifest", "listing"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("seed", [2])
def test_in_turn(tmp_path, seed, manifest, listing):
    chance = random.Random(seed)
    mode = {"manifest": manifest, "listing": listing}
    sides = [Theirs(tmp_path, **mode), Ours(tmp_path, **mode)]
    namespaces, done, hidden = {()}, [], set()
    for _ in range(45):
        number = chance.randrange(2)
        if chance.random() < 0.2:
            sides[number] = type(sides[number])(tmp_path, **mode)
        parts = [chance.choice(NAMES) for _ in range(chance.choice([1, 1, 2, 2, 3]) if manifest else 1)]
        kind = chance.choice(CHANGES if manifest else CHANGES[2:])
        makes_table = kind in ("create_table", "overwrite", "declare")
        # pylance makes tables in namespaces that do not exist, and declares what was deregistered
        if makes_table and (tuple(parts[:-1]) not in namespaces or tuple(parts) in hidden):
            continue
        properties = PROPERTIES if manifest and chance.random() < 0.5 else None
        try:
            sides[number].change(kind, parts, properties)
        except (LanceError, requests.LanceNamespaceError):
            continue
        done.append((type(sides[number]).__name__, kind, parts))
        if kind == "create_namespace":
            namespaces.add(tuple(parts))
        elif kind == "drop_namespace":
            namespaces.discard(tuple(parts))
        elif kind == "deregister":
            hidden.add(tuple(parts))
        options = {"with_root_properties": not (manifest and listing)}
        theirs, ours = (tables_and_namespaces(side, namespaces, **options) for side in sides)
        assert ours == theirs, done
    assert len({(side, kind) for side, kind, _ in done}) > 5
    for parts in namespaces:
        for name in sides[1].root.list_tables(list(parts), include_declared=False).tables:
            location = sides[1].root.describe_table([*parts, name]).location
            assert lance.dataset(location).count_rows() in (2, 3)


def test_names_that_are_not_ascii(tmp_path):
    theirs, ours = (side(tmp_path, manifest=True, listing=True) for side in (Theirs, Ours))
    theirs.change("create_namespace", ["é x"], None)
    for declares, writes, name in ((theirs, ours, "ü 1"), (ours, theirs, "ü 2")):
        declares.change("declare", ["é x", name], None)
        for side in (ours, theirs):
            assert name in side.namespace(["é x"])[1]
            side.table(["é x", name])
        writes.change("create_table", ["é x", name], None)
        locations = {side.table(["é x", name])[0] for side in (ours, theirs)}
        assert len(locations) == 1
        assert lance.dataset(locations.pop()).to_table() == ROWS
        declares.change("drop_table", ["é x", name], None)
        assert ours.namespace(["é x"]) == theirs.namespace(["é x"]) == ([], [], None)

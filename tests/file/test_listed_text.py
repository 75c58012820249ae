"""Text that is stored as lists of bytes, as pre-releases of Lance 0.13 did. pylance reads it, too."""

import lance
import lance.file
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from listed_text import write_listed

import lance_df
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.file import LanceFileReader
from lance_df.fragment import DataFile, FragmentMetadata

pytestmark = pytest.mark.engine

SCHEMA = pa.schema(
    [
        ("numbers", pa.int64()),
        ("strings", pa.string()),
        ("bins", pa.binary()),
        ("wide", pa.large_string()),
        ("more_numbers", pa.int64()),
    ]
)


def rows(start, number, *, nulls):
    words = ["", "foo", "bär", "a longer one, of more than twelve bytes", "\N{GRINNING FACE}"]
    texts = [
        None if nulls and place % 4 == 1 else f"{words[place % 5]}{place if place % 3 else ''}"
        for place in range(start, start + number)
    ]
    return pa.table(
        {
            "numbers": list(range(start, start + number)),
            "strings": texts,
            "bins": pa.array([None if each is None else each.encode()[::-1] for each in texts], pa.binary()),
            "wide": pa.array(texts[::-1], pa.large_string()),
            "more_numbers": [place * 2 for place in range(start, start + number)],
        },
        SCHEMA,
    )


TABLES = {
    "one page": [rows(0, 3, nulls=False)],
    "nulls": [rows(0, 100, nulls=True)],
    "pages": [rows(0, 300, nulls=True), rows(300, 1, nulls=False), rows(301, 400, nulls=True)],
    "null first": [
        rows(0, 5, nulls=True).set_column(1, SCHEMA.field(1), pa.nulls(5, pa.string())),
        rows(5, 9, nulls=True),
    ],
    "empty texts": [pa.table([[1, 2], ["", ""], [b"", b""], ["", ""], [3, 4]], SCHEMA)],
}


def table_of(root, tables, **changes):
    """Write a table of one fragment and return its rows."""
    (root / "data").mkdir(parents=True)
    columns = write_listed(root / "data" / "old.lance", tables)
    whole = pa.concat_tables(tables)
    file = DataFile("old.lance", list(range(len(SCHEMA))), changes.get("columns", columns), 0, 3)
    fragment = FragmentMetadata(0, [file], whole.num_rows)
    lance_df.LanceDataset.commit(str(root), lance_df.LanceOperation.Overwrite(SCHEMA, [fragment]))
    return whole


@pytest.fixture(scope="module", params=TABLES, ids=str)
def written(request, tmp_path_factory):
    """A table, and its rows."""
    root = tmp_path_factory.mktemp("listed") / "t"
    return root, table_of(root, TABLES[request.param])


def test_tables_read_as_with_pylance(written):
    root, whole = written
    ours, theirs = lance_df.dataset(root), lance.dataset(root)
    assert theirs.to_table().equals(whole)
    assert ours.to_table().equals(whole, check_metadata=True)
    ours.validate()
    for names in (["strings"], ["wide", "numbers"], ["bins", "more_numbers"]):
        assert ours.to_table(names).equals(whole.select(names))
    indices = [whole.num_rows - 1, 0, whole.num_rows // 2, 0]
    assert ours.take(indices).equals(whole.take(indices))
    assert ours.take(indices).equals(theirs.take(indices))


FILTERS = {
    "strings = 'foo1'": pc.field("strings") == "foo1",
    "strings LIKE 'b%'": None,
    "strings IS NULL": pc.field("strings").is_null(),
    "strings = ''": pc.field("strings") == "",
    "length(strings) > 20 AND numbers > 10": None,
    "wide >= 'foo'": pc.field("wide") >= "foo",
}


def test_filters(written):
    root, whole = written
    ours, theirs = lance_df.dataset(root), lance.dataset(root)
    for text, condition in FILTERS.items():
        expected = theirs.to_table(filter=text)
        assert ours.to_table(filter=text).equals(expected), text
        if condition is not None:
            assert ours.to_table(filter=condition).equals(whole.filter(condition)), text
            assert whole.filter(condition).num_rows == expected.num_rows, text


def test_queries(tmp_path):
    whole = table_of(tmp_path / "t", TABLES["pages"])
    context = lance_df.connect(tmp_path)
    found = context.sql(
        "SELECT strings, count(*) AS n FROM t GROUP BY strings ORDER BY strings NULLS FIRST"
    ).to_arrow_table()
    expected: dict[str | None, int] = {}
    for text in whole["strings"].to_pylist():
        expected[text] = expected.get(text, 0) + 1
    assert {row["strings"]: row["n"] for row in found.to_pylist()} == expected
    texts = found["strings"].to_pylist()[1:]
    assert texts == sorted(texts, key=lambda text: text.encode())


@pytest.mark.parametrize("tables", TABLES.values(), ids=TABLES)
def test_files_alone(tmp_path, tables):
    columns = write_listed(tmp_path / "old.lance", tables)
    assert columns == [0, 1, 3, 5, 7]
    reader = LanceFileReader(tmp_path / "old.lance")
    assert reader.read_all().to_table().equals(pa.concat_tables(tables))
    theirs = lance.file.LanceFileReader(str(tmp_path / "old.lance"))
    assert theirs.metadata().num_rows == reader.num_rows()


def test_rewritten_as_ordinary_text(tmp_path):
    whole = table_of(tmp_path / "t", TABLES["pages"])
    ours = lance_df.dataset(tmp_path / "t")
    ours.delete("numbers = 0")
    lance_df.write_dataset(rows(90000, 2, nulls=True), ours, mode="append")
    ours = lance_df.dataset(tmp_path / "t")
    ours.optimize.compact_files()
    expected = pa.concat_tables([whole.filter(pc.field("numbers") != 0), rows(90000, 2, nulls=True)])
    assert lance.dataset(tmp_path / "t").to_table().equals(expected)
    assert lance_df.dataset(tmp_path / "t").to_table().equals(expected)


def test_columns_that_are_not_what_the_manifest_says(tmp_path):
    """The bytes of a value are the column after its ends, or there are none."""
    table_of(tmp_path / "t", TABLES["nulls"], columns=[0, 1, 3, 7, 5])
    ours = lance_df.dataset(tmp_path / "t")
    with pytest.raises((CorruptDataError, UnsupportedFeatureError), match="more_numbers"):
        ours.to_table(["more_numbers"])
    with pytest.raises((CorruptDataError, UnsupportedFeatureError), match="wide"):
        ours.to_table(["wide"])
    table_of(tmp_path / "u", TABLES["nulls"], columns=[0, 1, 2, 5, 7])
    with pytest.raises((CorruptDataError, UnsupportedFeatureError), match="bins"):
        lance_df.dataset(tmp_path / "u").to_table(["bins"])

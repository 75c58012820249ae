"""Parse statements that change tables, from their tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NoReturn

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.sql.before_statements import take_explain, take_prepare, take_semicolons
from lance_df.sql.changes import (
    AddColumn,
    Alteration,
    Change,
    CreateTable,
    Delete,
    DropColumn,
    DropTable,
    Header,
    Insert,
    Merge,
    MergeAction,
    MergeClause,
    Name,
    PartitionTerm,
    RenameColumn,
    RowKind,
    SetPartitionSpec,
    Truncate,
    Update,
    Verb,
)
from lance_df.sql.dialect import tokenize
from lance_df.sql.distinct_from import check_distinct_from
from lance_df.sql.splice import StringName, quote_identifier
from lance_df.sql.token_reader import TokenReader, token_reader

_BEGINNINGS: Final = {
    Verb.INSERT: ("INSERT", "INTO"),
    Verb.DELETE: ("DELETE", "FROM"),
    Verb.UPDATE: ("UPDATE",),
    Verb.MERGE: ("MERGE", "INTO"),
    Verb.TRUNCATE: ("TRUNCATE",),
    Verb.CREATE: ("CREATE",),
    Verb.DROP: ("DROP", "TABLE"),
    Verb.ALTER: ("ALTER", "TABLE"),
}
# without the second word
_SHORTER: Final = {"INSERT": Verb.INSERT, "DELETE": Verb.DELETE, "MERGE": Verb.MERGE}
_QUERY_WORDS: Final = ("SELECT", "WITH", "VALUES", "TABLE", "FROM", "(")
_NAMES_TOO: Final = frozenset(
    [
        *("DEFAULT", "GENERATED", "COLLATE", "COMMENT", "AUTO_INCREMENT", "AUTOINCREMENT", "IDENTITY", "ON"),
        *("INVISIBLE", "OPTIONS"),
    ]
)
_CONSTRAINTS: Final = _NAMES_TOO.union(
    ("PRIMARY KEY", "PRIMARY", "UNIQUE", "FOREIGN KEY", "FOREIGN", "CHECK", "REFERENCES", "CONSTRAINT"),
    ("CHARACTER SET",),
)
_SPEC_CHANGES: Final = (
    *(("ADD", "PARTITION"), ("DROP", "PARTITION"), ("REPLACE", "PARTITION"), ("CLUSTER BY",)),
    *(("SET", "PARTITIONED BY"), ("PARTITION BY",), ("PARTITIONED BY",)),
)
_NUMBERED: Final = frozenset({"bucket", "multi_bucket", "truncate"})
_MERGE_INSERT: Final = "LanceDataset.merge_insert and PartitionedNamespace.upsert"


def parse_header(text: str) -> Header | None:
    """Return the kind and the table of a statement that changes a table; None for other statements.

    >>> parse_header("DELETE FROM Trips WHERE fare < 0")
    Header(verb=<Verb.DELETE: 'DELETE'>, name=('trips',), flags=frozenset(), unsupported=None)
    """
    reader = token_reader(text)
    if reader is None:
        return None
    try:
        return _header(reader)
    except InvalidInputError:
        return None  # DataFusion reports the error


def is_unread(text: str) -> bool:
    """Whether a statement may change a table whose name cannot be parsed.

    >>> is_unread("DROP TABLE #t"), is_unread("DROP TABLE t"), is_unread("SELECT 1")
    (True, False, False)
    """
    reader = token_reader(text)
    if reader is None:
        return True
    try:
        _header(reader)
    except InvalidInputError:
        return True
    return False


def parse_change(text: str) -> Change:
    """Parse a statement for which `parse_header` returns a header.

    Raises
    ------
    InvalidInputError
        The statement is malformed.
    UnsupportedFeatureError
        This form is not supported; the message names the alternative.
    """
    reader = token_reader(text)
    header = None if reader is None else _header(reader)
    if reader is None or header is None:
        raise InvalidInputError("the statement does not change a table")
    if header.unsupported is not None:
        _unsupported(*header.unsupported)
    verb, name, flags = header.verb, header.name, header.flags
    change: Change
    match verb:
        case Verb.INSERT:
            change = _insert(reader, name, is_overwrite="OVERWRITE" in flags)
        case Verb.DELETE:
            change = _delete(reader, name)
        case Verb.UPDATE:
            change = _update(reader, name)
        case Verb.MERGE:
            change = _merge(reader, name)
        case Verb.TRUNCATE:
            change = Truncate(name)
        case Verb.CREATE:
            change = _create(reader, name, flags)
        case Verb.DROP:
            change = DropTable(name, "IF EXISTS" in flags)
            if reader.at(","):
                _unsupported("DROP TABLE of several tables", "one DROP TABLE for each")
            if reader.take("CASCADE") or reader.take("RESTRICT"):
                _unsupported("DROP TABLE … CASCADE", "DROP TABLE without CASCADE or RESTRICT")
        case Verb.ALTER:
            change = _alter(reader, name)
    reader.end()
    if isinstance(change, Delete | Update | Merge):
        _check_meaning(change, reader, text)
    return change


def _check_meaning(change: Delete | Update | Merge, reader: TokenReader, text: str) -> None:
    """Check that DataFusion takes what a change computes as SQL does."""
    check_distinct_from(text)
    if (word := reader.compared_with_subquery()) is not None:
        # DataFusion 55 takes = ANY for TRUE
        _unsupported(f"{word} (SELECT …)", "IN, NOT IN, EXISTS, or a comparison with (SELECT min(…) …)")
    if "select" not in text.lower():
        return
    from lance_df.sql.negated_subqueries import has_negated_subquery

    if any(map(has_negated_subquery, _queries_and_conditions(change))):
        _unsupported(
            "IN (SELECT …) below NOT, or NOT IN (SELECT …) below OR, where DataFusion reads NULL as false,",
            "NOT EXISTS (SELECT … WHERE …), or NOT IN joined by AND",
        )


def _queries_and_conditions(change: Delete | Update | Merge) -> Iterator[str]:
    """Yield all that a change computes; what it computes of a row as a query that selects it."""
    match change:
        case Delete(where=where):
            conditions, values = [where], []
        case Update(assignments=assignments, others=others, where=where):
            conditions = [where, None if others is None else f"SELECT * FROM {others}"]
            values = [value for _, value in assignments]
        case Merge(source=source, condition=condition, clauses=clauses):
            conditions, values = [f"SELECT * FROM {source}", condition], []
            for clause in clauses:
                values += [*(value for _, value in clause.assignments), *clause.values]
                values += [] if clause.condition is None else [clause.condition]
    yield from (each for each in conditions if each is not None)
    yield from (f"SELECT {each}" for each in values)


def _header(reader: TokenReader) -> Header | None:
    """Read the beginning of a statement, with the name of its table."""
    flags: set[str] = set()
    take_semicolons(reader)
    unsupported = _before_a_change(reader)
    if reader.take("INSERT", "OVERWRITE"):
        flags.add("OVERWRITE")
        verb: Verb | None = Verb.INSERT
        reader.take("INTO")
    else:
        verb = next((each for each, words in _BEGINNINGS.items() if reader.take(*words)), None)
    if verb is None and not reader.at("INSERT", "OR"):
        word = reader.next_word() or ""
        verb = _SHORTER.get(word)
        if verb is None or not reader.take(word) or not (reader.is_at_name() or reader.is_at_string()):
            return None
        words = " ".join(_BEGINNINGS[verb])
        unsupported = unsupported or (f"{word} without {_BEGINNINGS[verb][1]}", words)
    if verb is None:
        return None
    if verb is Verb.CREATE:
        if reader.take("OR", "REPLACE"):
            flags.add("OR REPLACE")
        if not reader.take("TABLE"):
            return None
        if reader.take("IF", "NOT", "EXISTS"):
            flags.add("IF NOT EXISTS")
    elif verb is Verb.DROP:
        if reader.take("IF", "EXISTS"):
            flags.add("IF EXISTS")
    elif verb in (Verb.INSERT, Verb.TRUNCATE):
        reader.take("TABLE")
    if verb in (Verb.TRUNCATE, Verb.ALTER) and reader.take("IF", "EXISTS"):
        words = "TRUNCATE TABLE" if verb is Verb.TRUNCATE else "ALTER TABLE"
        unsupported = unsupported or (f"{words} IF EXISTS", f"{words} of a table that exists")
    name = reader.name(or_strings=True)
    if any(isinstance(part, StringName) for part in name):
        instead = f"double quotes, as in {'.'.join(map(quote_identifier, name))}"
        unsupported = unsupported or ("the name of a table in single quotes", instead)
    return Header(verb, name, frozenset(flags), unsupported)


def _before_a_change(reader: TokenReader) -> tuple[str, str] | None:
    """Read a prefix of a statement; return its name and the alternative to it, or None."""
    if take_explain(reader):
        return "EXPLAIN of a change", "explain_scan, which shows what the change reads"
    if take_prepare(reader):
        return "PREPARE of a change", "SessionContext.sql with param_values"
    if reader.take("WITH"):
        reader.take("RECURSIVE")
        while True:
            reader.identifier()
            if reader.at("("):
                reader.bracketed()
            reader.need("AS")
            reader.bracketed()
            if not reader.take(","):
                return "WITH before a change", "WITH in its query, as in INSERT INTO t WITH … SELECT"
    return None


def _unsupported(form: str, instead: str) -> NoReturn:
    raise UnsupportedFeatureError(f"{form} is not supported; use {instead}")


def _alias(reader: TokenReader, name: Name, *stops: str) -> str:
    """Read an alias, and return it. Without an alias, return the name of the table."""
    if reader.take("AS") or (reader.is_at_name() and reader.next_word() not in stops):
        return reader.identifier()
    return name[-1]


def _list(reader: TokenReader, item: Callable[[TokenReader], str]) -> tuple[str, ...]:
    """Read ``(a, b, …)``."""
    reader.need("(")
    items = [item(reader)]
    while reader.take(","):
        items.append(item(reader))
    reader.need(")")
    return tuple(items)


def _expressions(reader: TokenReader) -> tuple[str, ...]:
    return _list(reader, lambda each: each.text_until((",",), (")",)))


def _columns(reader: TokenReader) -> tuple[str, ...]:
    return _list(reader, TokenReader.identifier)


def _no_returning(reader: TokenReader) -> None:
    if reader.at("RETURNING"):
        _unsupported("RETURNING", "a SELECT")


def _insert(reader: TokenReader, name: Name, *, is_overwrite: bool) -> Insert:
    if is_overwrite:
        _unsupported(
            "INSERT OVERWRITE",
            'write_dataset(…, mode="overwrite") and PartitionedNamespace.overwrite_partitions',
        )
    if reader.take("AS"):
        reader.identifier()
    columns = None
    if reader.at("(") and not any(reader.at("(", word) for word in _QUERY_WORDS):
        columns = _columns(reader)
        if len(set(columns)) < len(columns):
            raise InvalidInputError(f"a column is named twice: {', '.join(columns)}")
    if reader.at("DEFAULT", "VALUES"):
        _unsupported("INSERT … DEFAULT VALUES", "INSERT … VALUES (NULL)")
    if reader.at("BY", "NAME"):
        _unsupported("INSERT … BY NAME", "INSERT INTO t (columns) …")
    has_values = reader.at("VALUES")
    query = reader.text_until(("RETURNING",), ("ON", "CONFLICT"), ("ON", "DUPLICATE"))
    if has_values and "default" in query.lower():
        rows = TokenReader(tokenize(query), query)
        while (rows.take("VALUES") or rows.take(",")) and rows.at("("):
            _check_no_default(_expressions(rows))
    _no_returning(reader)
    if reader.at("ON"):
        _unsupported("INSERT … ON CONFLICT", f"MERGE INTO, or {_MERGE_INSERT}")
    return Insert(name, columns, query, has_values)


def _check_no_default(values: Sequence[str]) -> None:
    if any(value.upper() == "DEFAULT" for value in values):
        _unsupported("VALUES (…, DEFAULT)", "VALUES (…, NULL)")


def _where(reader: TokenReader) -> str | None:
    where = reader.text_until(("RETURNING",), ("ORDER BY",), ("LIMIT",)) if reader.take("WHERE") else None
    _no_returning(reader)
    if reader.at("ORDER BY") or reader.at("LIMIT"):
        _unsupported("a change with ORDER BY or LIMIT", "WHERE … IN (SELECT … ORDER BY … LIMIT …)")
    return where


def _delete(reader: TokenReader, name: Name) -> Delete:
    alias = _alias(reader, name, "WHERE", "USING", "RETURNING", "ORDER BY", "LIMIT")
    if reader.at("USING"):
        _unsupported("DELETE … USING", "WHERE EXISTS (SELECT …), or MERGE INTO … WHEN MATCHED THEN DELETE")
    return Delete(name, alias, _where(reader))


def _assignments(reader: TokenReader, name: Name, alias: str, *stops: str) -> tuple[tuple[str, str], ...]:
    """Read ``a = 1, t.b = 2``, up to one of the words ``stops``."""
    pairs: dict[str, str] = {}
    while not pairs or reader.take(","):
        if reader.at("("):
            _unsupported("SET (a, b) = …", "SET a = …, b = …")
        path = [reader.identifier()]
        while reader.take("."):
            path.append(reader.identifier())
        if len(path) > 1 and path[-2] != alias:
            if path[-2] == name[-1]:
                raise InvalidInputError(
                    f"SET must use the alias {alias!r} of the table, not its name {name[-1]!r}"
                )
            _unsupported(f"SET of a field of a struct ({'.'.join(path)})", "SET of the whole column")
        if path[-1] in pairs:
            raise InvalidInputError(f"column {path[-1]!r} is set twice")
        reader.need("=")
        if reader.at("DEFAULT"):
            _unsupported("SET … = DEFAULT", "SET … = NULL")
        pairs[path[-1]] = reader.text_until((",",), *((stop,) for stop in stops))
    return tuple(pairs.items())


def _update(reader: TokenReader, name: Name) -> Update:
    alias = _alias(reader, name, "SET")
    reader.need("SET")
    assignments = _assignments(reader, name, alias, "FROM", "WHERE", "RETURNING", "ORDER BY", "LIMIT")
    others = reader.text_until(("WHERE",), ("RETURNING",)) if reader.take("FROM") else None
    return Update(name, alias, assignments, others, _where(reader))


def _merge(reader: TokenReader, name: Name) -> Merge:
    alias = _alias(reader, name, "USING")
    reader.need("USING")
    if reader.at("("):
        source = f"({reader.bracketed()})"
        source_alias = _alias(reader, ("",), "ON")
        if not source_alias:
            raise InvalidInputError("the source of a MERGE needs an alias, such as USING (SELECT …) AS s")
        source = f"{source} AS {quote_identifier(source_alias)}"
    else:
        parts = reader.name()
        source_alias = _alias(reader, parts, "ON")
        source = f"{'.'.join(map(quote_identifier, parts))} AS {quote_identifier(source_alias)}"
    if reader.at("("):
        source += f" ({', '.join(map(quote_identifier, _columns(reader)))})"
    if source_alias == alias:
        raise InvalidInputError(
            f"the table and the source of a MERGE are both called {alias!r}; rename one with AS"
        )
    reader.need("ON")
    condition = reader.text_until(("WHEN",))
    clauses = []
    while reader.take("WHEN"):
        clauses.append(_clause(reader, name, alias))
    _no_returning(reader)
    if not clauses:
        raise InvalidInputError("a MERGE needs at least one WHEN clause")
    return Merge(name, alias, source, source_alias, condition, tuple(clauses))


def _clause(reader: TokenReader, name: Name, alias: str) -> MergeClause:
    if reader.take("MATCHED"):
        rows = RowKind.MATCHED
    else:
        reader.need("NOT", "MATCHED")
        is_of_table = reader.take("BY", "SOURCE")
        rows = RowKind.NOT_MATCHED_BY_SOURCE if is_of_table else RowKind.NOT_MATCHED
        if not is_of_table:
            reader.take("BY", "TARGET")
    condition = reader.text_until(("THEN",)) if reader.take("AND") else None
    reader.need("THEN")
    if reader.take("DO", "NOTHING"):
        return MergeClause(rows, condition, MergeAction.NOTHING)
    if rows is RowKind.NOT_MATCHED:
        reader.need("INSERT")
        return _inserting(reader, condition)
    if reader.take("DELETE"):
        return MergeClause(rows, condition, MergeAction.DELETE)
    reader.need("UPDATE", "SET")
    if rows is RowKind.MATCHED and reader.take("*"):
        return MergeClause(rows, condition, MergeAction.UPDATE, takes_all=True)
    assignments = _assignments(reader, name, alias, "WHEN", "RETURNING")
    return MergeClause(rows, condition, MergeAction.UPDATE, assignments)


def _inserting(reader: TokenReader, condition: str | None) -> MergeClause:
    rows, action = RowKind.NOT_MATCHED, MergeAction.INSERT
    if reader.take("*") or reader.take("ROW"):
        return MergeClause(rows, condition, action, takes_all=True)
    columns = _columns(reader) if reader.at("(") else None
    reader.need("VALUES")
    values = _expressions(reader)
    _check_no_default(values)
    if columns is None:
        return MergeClause(rows, condition, action, values=values)
    if len(columns) != len(values) or len(set(columns)) < len(columns):
        raise InvalidInputError(
            f"INSERT of a MERGE names {len(set(columns))} columns, but has {len(values)} values"
        )
    return MergeClause(rows, condition, action, tuple(zip(columns, values, strict=True)))


def _create(reader: TokenReader, name: Name, flags: frozenset[str]) -> CreateTable:
    definitions = partition_by = query = None
    if reader.at("("):
        _check_definitions(reader)
        definitions = reader.bracketed()
    while not reader.is_at_end() and not reader.at("AS"):
        if partition_by is not None or not (reader.take("PARTITIONED BY") or reader.take("PARTITION BY")):
            _unsupported(f"CREATE TABLE … {reader.next_word()}", "write_dataset")
        partition_by = _partition_terms(reader)
    if reader.take("AS"):
        query = reader.text_until()
    if definitions is not None and query is not None:
        _unsupported(
            "CREATE TABLE (columns) AS query", "CREATE TABLE AS query, with the columns of the query"
        )
    if definitions is None and query is None:
        raise InvalidInputError("CREATE TABLE needs column definitions, or AS and a query")
    return CreateTable(
        name, definitions, partition_by, query, "OR REPLACE" in flags, "IF NOT EXISTS" in flags
    )


def _check_definitions(reader: TokenReader) -> None:
    for word in sorted(_CONSTRAINTS):
        # a column may have this name
        if reader.has_after_a_name(word) if word in _NAMES_TOO else reader.has(word):
            _unsupported(f"{word} of a column", "write_dataset with a pyarrow schema, or NOT NULL")


def _partition_terms(reader: TokenReader) -> tuple[PartitionTerm, ...]:
    reader.need("(")
    if reader.at(")"):
        raise InvalidInputError("a partition spec needs at least one field, such as year(at) or city")
    terms = [_partition_term(reader)]
    while reader.take(","):
        terms.append(_partition_term(reader))
    reader.need(")")
    return tuple(terms)


def _path(reader: TokenReader) -> str:
    parts = [reader.identifier()]
    while reader.take("."):
        parts.append(reader.identifier())
    return ".".join(parts)


def _partition_term(reader: TokenReader) -> PartitionTerm:
    """Read ``year(at)``, ``bucket(4, user)``, ``identity city`` or ``city``."""
    word = _path(reader)
    if word == "identity" and reader.is_at_name():
        return PartitionTerm("identity", (_path(reader),))
    if not reader.take("("):
        return PartitionTerm("identity", (word,))
    columns: list[str] = []
    numbers: list[int] = []
    while not (columns or numbers) or reader.take(","):
        if (number := reader.number()) is not None:
            numbers.append(number)
        else:
            columns.append(_path(reader))
    reader.need(")")
    if not columns or len(numbers) != (word in _NUMBERED):
        raise InvalidInputError(
            f"invalid partition field {word!r} with columns {columns} and numbers {numbers}; examples are "
            "year(at), bucket(4, user), truncate(3, name) and city"
        )
    if word == "bucket" and len(columns) > 1:
        word = "multi_bucket"
    return PartitionTerm(word, tuple(columns), numbers[0] if numbers else None)


def _alter(reader: TokenReader, name: Name) -> Alteration:
    if reader.take("SET", "PARTITION", "SPEC"):
        return SetPartitionSpec(name, _partition_terms(reader))
    for words in _SPEC_CHANGES:
        if reader.at(*words):
            _unsupported(f"ALTER TABLE … {' '.join(words)}", "ALTER TABLE … SET PARTITION SPEC (…)")
    if reader.at("ADD", "COLUMNS") or reader.at("DROP", "COLUMNS"):
        _unsupported(f"ALTER TABLE … {reader.next_word()} COLUMNS", "one ALTER TABLE … COLUMN for each")
    for words in (("SET", "TBLPROPERTIES"), ("SET", "("), ("UNSET", "TBLPROPERTIES")):
        if reader.at(*words):
            _unsupported(f"ALTER TABLE … {' '.join(words)}", "LanceDataset.update_config")
    if reader.take("ADD"):
        reader.take("COLUMN")
        if_not_exists = reader.take("IF", "NOT", "EXISTS")
        _check_definitions(reader)
        column = reader.identifier()
        added = AddColumn(name, column, reader.text_until((",",)), if_not_exists)
        if reader.at(","):
            _unsupported("ALTER TABLE with several changes", "add_columns with several fields")
        return added
    if reader.take("DROP"):
        reader.take("COLUMN")
        if_exists = reader.take("IF", "EXISTS")
        dropped = DropColumn(name, reader.identifier(), if_exists)
        if reader.at(","):
            _unsupported("ALTER TABLE with several changes", "drop_columns with several names")
        return dropped
    if reader.at("RENAME") and not reader.at("RENAME", "TO"):
        reader.take("RENAME")
        reader.take("COLUMN")
        column = reader.identifier()
        reader.need("TO")
        return RenameColumn(name, column, reader.identifier())
    if reader.at("RENAME", "TO"):
        _unsupported("ALTER TABLE … RENAME TO", "CREATE TABLE AS, or rename the folder")
    _unsupported(f"ALTER TABLE … {reader.next_word()}", "alter_columns of the dataset or the namespace")

"""The findings of a check of a table or namespace: what is wrong, what is expected, and what to do."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Final

from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

_SHOWN: Final = 100


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """Reads or writes fail, or return wrong rows."""
    WARNING = "warning"
    """Results are correct, but something is not as expected."""
    INFO = "info"
    """Nothing is wrong."""


class ProblemKind(StrEnum):
    """The kind of thing that a finding concerns."""

    METADATA = "metadata"
    COLUMNS = "columns"
    ROW = "row"
    NAME = "name"
    DUPLICATE = "duplicate"
    MISSING = "missing"
    VERSION = "version"
    UNPUBLISHED = "unpublished"
    SCHEMA = "schema"
    VALUES = "values"
    DAMAGED = "damaged"
    ORPHAN = "orphan"


REPAIR: Final = "run repair"


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding.

    Attributes
    ----------
    subject
        What the finding concerns: the id of a member, a folder, or a key of the metadata.
    found, expected
        The actual state and the expected state.
    advice
        What to do about it.
    """

    severity: Severity
    kind: ProblemKind
    subject: str
    found: str
    expected: str
    advice: str

    def __str__(self) -> str:
        said = f"{self.found} (expected: {self.expected})"
        return f"{self.severity} {self.kind}: {self.subject}: {said}. {self.advice}"


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a check.

    Attributes
    ----------
    uri, version
        The table or namespace that was checked, and its version.
    is_deep
        Whether all rows were read too.
    num_members
        The number of tables that were checked.
    problems
        The findings, most severe first.
    """

    uri: str
    version: int
    is_deep: bool
    num_members: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Return whether there are neither errors nor warnings."""
        return all(problem.severity is Severity.INFO for problem in self.problems)

    def of_kind(self, kind: ProblemKind) -> tuple[Problem, ...]:
        """Return the findings of a kind."""
        return tuple(problem for problem in self.problems if problem.kind is kind)

    def raise_for_errors(self) -> None:
        """Raise `CorruptDataError` with all findings if one of them is an error."""
        if any(problem.severity is Severity.ERROR for problem in self.problems):
            raise CorruptDataError(str(self))

    def __str__(self) -> str:
        counts = Counter(problem.severity for problem in self.problems)
        found = ", ".join(f"{counts[each]} {each}" for each in Severity if counts[each]) or "nothing found"
        depth = "every row" if self.is_deep else "without reading rows"
        head = f"{self.uri} version {self.version}: {_tables(self.num_members)}, {depth}: {found}"
        lines = [str(problem) for problem in self.problems[:_SHOWN]]
        more = len(self.problems) - len(lines)
        return "\n".join([head, *lines, *([f"… and {more} more"] if more else [])])


def error(kind: ProblemKind, subject: str, found: str, expected: str, advice: str) -> Problem:
    """Return a finding because of which reads or writes fail or give wrong results."""
    return Problem(Severity.ERROR, kind, subject, found, expected, advice)


def warning(kind: ProblemKind, subject: str, found: str, expected: str, advice: str) -> Problem:
    """Return a finding that does not affect the correctness of results."""
    return Problem(Severity.WARNING, kind, subject, found, expected, advice)


def info(kind: ProblemKind, subject: str, found: str, expected: str, advice: str) -> Problem:
    """Return a finding that is not a problem."""
    return Problem(Severity.INFO, kind, subject, found, expected, advice)


def sorted_problems(problems: list[Problem]) -> tuple[Problem, ...]:
    """Return findings, the worst first, otherwise in their order."""
    order = list(Severity)
    return tuple(sorted(problems, key=lambda problem: order.index(problem.severity)))


def _tables(number: int) -> str:
    return "1 table" if number == 1 else f"{number:,} tables"

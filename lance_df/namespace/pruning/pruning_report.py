"""Why partitions were kept: for each spec version the query put to ``__manifest``, and what did not help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_df.compute.calculator import evaluator
from lance_df.errors import LanceError, UnsupportedFeatureError
from lance_df.expr.nodes import (
    And,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    Truth,
    Unknown,
)
from lance_df.expr.simplify import simplify
from lance_df.expr.terms import columns_of, functions_of
from lance_df.expr.text import to_text
from lance_df.expr.walk import columns, conjuncts
from lance_df.namespace.names import SEPARATOR
from lance_df.namespace.pruning.implied import NOTHING, RANGE_ENDS, SourcedField
from lance_df.namespace.pruning.kept_members import matching_members
from lance_df.namespace.pruning.projection import Projector
from lance_df.namespace.pruning.spec_members import members_by_spec
from lance_df.namespace.spec.partition_values import expression_of
from lance_df.namespace.spec.transforms import TransformKind
from lance_df.scan.report import Count, Reason, SpecReport
from lance_df.sql.literals import literal_sql
from lance_df.sql.predicate_text import predicate_sql

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.pruning.spec_members import SpecMembers
    from lance_df.namespace.spec.partition_spec import PartitionField, PartitionSpec

_READ: Final = "object_id, location, read_version, read_branch, read_tag"
_MAX_SHOWN: Final = 3


def spec_reports(
    manifest: NamespaceManifest,
    predicate: Predicate | None,
    hint: Predicate | None,
    kept: npt.NDArray[np.intp],
) -> tuple[SpecReport, ...]:
    """Return what the partition values of each spec version made of a predicate and a hint.

    Parameters
    ----------
    kept
        The rows of ``manifest.members`` that were kept.
    """
    condition = simplify(And(tuple(each for each in (predicate, hint) if each is not None)))
    return tuple(_report(manifest, members, condition, kept) for members in members_by_spec(manifest))


def manifest_query(reports: Sequence[SpecReport]) -> str:
    """Return the query over ``__manifest`` that finds the members to read; spec, appendix D."""
    specs = " OR ".join(f"({report.predicate})" for report in reports) or "FALSE"
    return f"SELECT {_READ} FROM __manifest WHERE object_type = 'table' AND ({specs})"


def _report(
    manifest: NamespaceManifest, members: SpecMembers, condition: Predicate, kept: npt.NDArray[np.intp]
) -> SpecReport:
    notes = _Notes()
    projector = Projector(members.spec, manifest.schema, notes.observe)
    projected = projector.project(condition)
    own = set(members.places.tolist())
    num_kept = sum(place in own for place in kept.tolist())
    reasons = list(_Reasons(projector, manifest).of(condition))
    more = len(matching_members(members, projected)) - num_kept
    if more > 0:
        reasons.append(Reason("bounds that follow from the partition values", f"rule out {more:,} more"))
    of_spec = f"object_id LIKE '{members.spec.name}{SEPARATOR}%'"
    return SpecReport(
        spec=f"{members.spec.name} by {_described(members.spec, manifest)}",
        partitions=Count(num_kept, len(members)),
        predicate=_sql(of_spec, projected, notes),
        reasons=tuple(reasons),
    )


def _sql(of_spec: str, projected: Predicate, notes: _Notes) -> str:
    if projected == NOTHING:
        return of_spec
    try:
        text = predicate_sql(projected, notes.texts)
    except UnsupportedFeatureError:
        text = f"TRUE /* {to_text(projected).replace('*/', '* /')} */"
    return f"{of_spec} AND {f'({text})' if isinstance(projected, Or) else text}"


class _Notes:
    """The substituted expressions that values of partition fields were computed by."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self._told_of: list[Predicate] = []  # an id() is of this object only as long as it is here

    def observe(self, field: SourcedField, sources: Sequence[pa.Array], implied: Predicate) -> None:
        if field.kind is TransformKind.IDENTITY or len(sources[0]) > _MAX_SHOWN:
            return
        expression = expression_of(field.field, field.types)
        try:
            shown = [
                _substituted(expression, [literal_sql(column[row]) for column in sources])
                for row in range(len(sources[0]))
            ]
        except LanceError:
            return
        self._told_of.append(implied)
        self.texts[id(implied)] = ", ".join(dict.fromkeys(shown))


def _described(spec: PartitionSpec, manifest: NamespaceManifest) -> str:
    return ", ".join(described_field(field, manifest) for field in spec.fields)


def described_field(field: PartitionField, manifest: NamespaceManifest) -> str:
    """Return a partition field as users write it, with the names that its columns have by now."""
    paths = [manifest.schema.path(field_id) for field_id in field.source_ids]
    names = [
        f"(dropped column {number})" if path is None else ".".join(path)
        for number, path in zip(field.source_ids, paths, strict=True)
    ]
    if field.transform is None:
        return _substituted(field.expression or "", names)
    if field.transform.kind is TransformKind.IDENTITY:
        return names[0]
    parameter = field.transform.num_buckets or field.transform.width
    arguments = [*names, *([] if parameter is None else [str(parameter)])]
    return f"{field.transform.kind}({', '.join(arguments)})"


class _Reasons:
    """Why conjuncts did not help."""

    def __init__(self, projector: Projector, manifest: NamespaceManifest) -> None:
        self._projector = projector
        self._manifest = manifest

    def of(self, condition: Predicate) -> Iterator[Reason]:
        """Yield the conjuncts that say nothing about partitions, on their own or with others."""
        parts = [part for part in conjuncts(condition) if not isinstance(part, Literal)]
        whole = self._projector.project(And(tuple(parts)))
        for number, part in enumerate(parts):
            if (isinstance(part, Unknown) and not part.text) or not self._is_idle(part):
                continue
            others = And(tuple(parts[:number] + parts[number + 1 :]))
            if self._is_nothing(part) and self._projector.project(others) != whole:
                continue  # it helps together with others
            yield Reason(to_text(part), self._why_not(part))

    def _is_nothing(self, part: Predicate) -> bool:
        return self._projector.project(part) == NOTHING

    def _is_idle(self, part: Predicate) -> bool:
        """Whether all that follows is that the column is not NULL, if that."""
        match self._projector.project(part):
            case Not(IsNull()):
                return not (isinstance(part, Not) and isinstance(part.operand, IsNull))
            case found:
                return found == NOTHING

    def _why_not(self, part: Predicate) -> str:
        version = self._projector.spec.name
        match part:
            case Unknown(_, None):
                return "it is not understood"
            case Unknown(_, term) if term is not None:
                unsure = [name for name in sorted(functions_of(term)) if not evaluator().is_fixed([name])]
                if unsure:
                    return f"the function {unsure[0]} may give something else in another session"
                paths = columns_of(term)
            case Or(operands) if idle := [each for each in operands if self._is_nothing(each)]:
                return f"{to_text(idle[0])}: {self._why_not(idle[0])}"
            case _:
                paths = columns(part)
        unknown = sorted(".".join(path) for path in paths if path not in self._projector.types)
        if unknown:
            return f"no partition field has {unknown[0]} as its source in {version}"
        fields = [each.field for each in self._projector.fields if set(each.paths) & paths]
        described = ", ".join(described_field(field, self._manifest) for field in fields)
        more = "" if self._is_nothing(part) else ", but that it is not NULL"
        return f"{_kind(part)} says nothing about {described}{more}"


def _kind(part: Predicate) -> str:
    match part:
        case Comparison(_, operator) if operator in RANGE_ENDS:
            return "a range like this"
        case Comparison(_, operator) if operator.value == "<>":
            return "<>"
        case Comparison() | In() | IsNull() | Truth():
            return "one of its columns"
        case Not(In()):
            return "NOT IN"
        case Not(IsNull()):
            return "IS NOT NULL"
        case _:
            return "it"


def _substituted(expression: str, literals: list[str]) -> str:
    from lance_df.sql.substitution import substituted  # imports the parser, which most queries do without

    return substituted(expression, literals)

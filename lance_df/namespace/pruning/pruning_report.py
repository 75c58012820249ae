"""Report for each spec version the query over ``__manifest`` and the conjuncts that did not prune."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_df.compute.calculator import evaluator
from lance_df.errors import InvalidInputError
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
from lance_df.namespace.pruning.implied import NOTHING, RANGE_ENDS
from lance_df.namespace.pruning.projection import Projector
from lance_df.namespace.pruning.spec_members import members_by_spec
from lance_df.namespace.spec.transforms import TransformKind
from lance_df.scan.report import Count, Reason, SpecReport

if TYPE_CHECKING:
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.pruning.selected_members import SelectedMembers
    from lance_df.namespace.spec.partition_spec import PartitionField, PartitionSpec

_READ: Final = "object_id, location, read_version, read_branch, read_tag"


def spec_reports(
    manifest: NamespaceManifest,
    predicate: Predicate | None,
    pruning_predicate: Predicate | None,
    selected: SelectedMembers,
) -> tuple[SpecReport, ...]:
    """Return how the members of each spec version were selected, and which conjuncts did not prune.

    Parameters
    ----------
    predicate, pruning_predicate
        The predicates that selected the members.
    """
    condition = simplify(And(tuple(each for each in (predicate, pruning_predicate) if each is not None)))
    return tuple(
        SpecReport(
            spec=f"{members.spec.name} by {_described(members.spec, manifest)}",
            partitions=Count(int(np.isin(members.positions, selected.positions).sum()), len(members)),
            predicate=of_spec.to_sql(manifest.members),
            reasons=tuple(_Reasons(Projector.of(members.spec, manifest.schema), manifest).of(condition)),
        )
        for members, of_spec in zip(members_by_spec(manifest), selected.predicates, strict=True)
    )


def manifest_query(reports: Sequence[SpecReport]) -> str:
    """Return the query over ``__manifest`` that finds the members to read; spec, appendix D."""
    specs = " OR ".join(f"({report.predicate})" for report in reports) or "FALSE"
    return f"SELECT {_READ} FROM __manifest WHERE object_type = 'table' AND ({specs})"


def _described(spec: PartitionSpec, manifest: NamespaceManifest) -> str:
    return ", ".join(described_field(field, manifest) for field in spec.fields)


def described_field(field: PartitionField, manifest: NamespaceManifest) -> str:
    """Return a partition field as users write it, with the current names of its columns."""
    paths = [manifest.schema.path(field_id) for field_id in field.source_ids]
    names = [
        f"(dropped column {number})" if path is None else ".".join(path)
        for number, path in zip(field.source_ids, paths, strict=True)
    ]
    if field.transform is None:
        return _with_names(field.expression or "", names)
    if field.transform.kind is TransformKind.IDENTITY:
        return names[0]
    parameter = field.transform.num_buckets or field.transform.width
    arguments = [*names, *([] if parameter is None else [str(parameter)])]
    return f"{field.transform.kind}({', '.join(arguments)})"


class _Reasons:
    """Finds the reasons why conjuncts did not prune."""

    def __init__(self, projector: Projector, manifest: NamespaceManifest) -> None:
        self._projector = projector
        self._manifest = manifest

    def of(self, condition: Predicate) -> Iterator[Reason]:
        """Yield the conjuncts that prune no partitions, alone or together with others."""
        parts = [part for part in conjuncts(condition) if not isinstance(part, Literal)]
        whole = self._projector.project(And(tuple(parts)))
        for number, part in enumerate(parts):
            if (isinstance(part, Unknown) and not part.text) or not self._is_idle(part):
                continue
            others = And(tuple(parts[:number] + parts[number + 1 :]))
            if self._is_nothing(part) and self._projector.project(others) != whole:
                continue  # it prunes together with others
            yield Reason(to_text(part), self._why_not(part))

    def _is_nothing(self, part: Predicate) -> bool:
        return self._projector.project(part) == NOTHING

    def _is_idle(self, part: Predicate) -> bool:
        """Whether a conjunct implies at most that the partition column is not NULL."""
        match self._projector.project(part):
            case Not(IsNull()):
                return not (isinstance(part, Not) and isinstance(part.operand, IsNull))
            case projected:
                return projected == NOTHING

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


def _with_names(expression: str, names: Sequence[str]) -> str:
    from lance_df.sql.substitution import substituted  # imports the parser, which most queries do not need

    try:
        return substituted(expression, names)
    except InvalidInputError:  # of another writer; DataFusion can parse it, the parser cannot
        return expression

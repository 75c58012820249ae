"""Run one history: step by step, each compared with the model."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import namespace_upkeep, table_upkeep
from .checks import QUESTIONS, as_read, read_all
from .model import Model, Settings
from .pairs import interleaved, model_after, models_after
from .program import Action, program
from .steps import OPERATIONS, Check, Step
from .thresholds import values_of
from .workers import Outcome, Worker, Workers

NextStep = Callable[[int, Model], Step | None]
NextChecks = Callable[[int, Model], Sequence[Check]]

_OPENING = {
    ("namespace", "new"): "ns = lance_df.PartitionedNamespace.open(root)",
    ("namespace", "held"): "ns = held",
    ("table", "new"): "api = lance_df\ntable = api.dataset(root)",
    ("table", "held"): "api = lance_df\ntable = held\ntable.checkout_latest()",
    ("table", "pylance"): "api = lance\ntable = api.dataset(root)",
}
_CONFLICT = "ConflictError"
_ORDERS = (1, 2, 10, 50, 300, 1000)
_NO_ANSWER = ("killed", "hangs", "memory")


@dataclass(frozen=True)
class Failure:
    """What went wrong.

    Attributes
    ----------
    kind
        Equal for failures of one cause, most likely.
    text
        What was found, and what was expected.
    actions
        The history up to there.
    steps
        The steps with the checks that were made, the last one being the step that failed.
    """

    kind: str
    text: str
    actions: tuple[Action, ...]
    steps: tuple[Step, ...]

    def program(self, settings: Settings, title: str) -> str:
        """Return a program that reproduces it."""
        said = self.text.replace("\\", "\\\\").replace('"""', "'''")[:2000]
        return program(f"{title}\n\n{self.kind}: {said}\n", values_of(settings.thresholds), self.actions)


class _FailedError(Exception):
    """A step or a check failed."""

    def __init__(self, kind: str, text: str, action: Action | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.action = action


@dataclass
class Counts:
    """What was done.

    Attributes
    ----------
    steps, checks
        By operation and way; by kind.
    ways
        Steps by the way they were made, and what came of it.
    sizes
        Histories by the largest numbers of partitions and fragments.
    seconds_by
        Of the processor, in the processes that ran steps, by what they did.
    """

    steps: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    seconds_by: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return sum(self.seconds_by.values())

    def add_step(self, name: str) -> None:
        self.steps[name] += 1

    def add_check(self, name: str) -> None:
        self.checks[name] += 1

    def add_seconds(self, name: str, seconds: float) -> None:
        self.seconds_by[name] = self.seconds_by.get(name, 0.0) + seconds

    def add_size(self, name: str, size: int) -> None:
        """Count a size by its order of magnitude."""
        low = max((each for each in _ORDERS if each <= size), default=0)
        self.sizes[f"{name}: {low} or more"] += 1


class History:
    """A history while it runs.

    Parameters
    ----------
    model
        What there is before the first step: columns and no rows.
    folder
        An empty folder.
    """

    def __init__(self, model: Model, folder: Path, workers: Workers, counts: Counts) -> None:
        self.model = model
        self._workers = workers
        self._settings = model.settings
        self._counts = counts
        self._actions: list[Action] = []
        self._steps: list[Step] = []
        temporary = folder / "temporary"
        temporary.mkdir()
        self._variables = {
            "folder": str(folder),
            "root": str(folder / "data"),
            "temporary": str(temporary),
            "handles": {},
        }
        self._thresholds = values_of(model.settings.thresholds)
        self._main = self._start()
        self._version = 0
        self._known_members: dict[tuple[str, int], list[str]] = {}
        self._sizes: Counter[str] = Counter()

    def _start(self) -> Worker:
        return self._workers.start(self._variables, self._thresholds)

    @contextmanager
    def _new(self, name: str = "starting processes") -> Iterator[Worker]:
        """Make a process; what it takes besides its answers counts as what is named."""
        worker = self._start()
        try:
            yield worker
        finally:
            self._counts.add_seconds(name, worker.close() - worker.answered)

    def _count_seconds(self, names: Sequence[str], outcomes: Sequence[Outcome]) -> None:
        """Count what answers took."""
        for name, outcome in zip(names, outcomes, strict=False):
            self._counts.add_seconds(name, outcome.seconds)

    def close(self) -> None:
        """End the process that goes on."""
        self._counts.add_seconds("starting processes", self._main.close() - self._main.answered)
        for name, size in self._sizes.items():
            self._counts.add_size(name, size)

    def create(self) -> None:
        """Make the table or the namespace."""
        module = {"namespace": namespace_upkeep, "table": table_upkeep}[self._settings.kind]
        source = module.created(self.model)
        if self._settings.kind == "table":
            source = f"api = lance_df\n{source}"
        action = Action((source,), "here", "create")
        [outcome] = self._main.run(source)
        self._count_seconds(["create"], [outcome])
        self._actions.append(action)
        if outcome.error:
            raise _FailedError(f"{outcome.error[0]} in create", outcome.trace)
        self._compare([self.model])

    def step(self, step: Step) -> None:
        """Make a step, and read everything."""
        self._steps.append(dataclasses.replace(step, checks=()))
        self._counts.add_step(step.counted)
        programs = [OPERATIONS[each.operation].program for each in step.all]
        self._counts.ways.update({f"by {each}" for each in programs if each})
        if step.way == "pair" and step.other is not None:
            allowed = self._pair(step, step.other)
        elif step.way == "killed":
            allowed = self._killed(step)
        else:
            allowed = self._alone(step)
        self._compare(allowed)

    def _source(self, step: Step) -> str:
        way = step.way if step.way in ("held", "pylance") else "new"
        return f"{_OPENING[self._settings.kind, way]}\n{OPERATIONS[step.operation].source(step.arguments)}"

    def _alone(self, step: Step) -> list[Model]:
        source = self._source(step)
        is_here = step.way in ("here", "held")
        operation = OPERATIONS[step.operation]
        action = Action((source,), "here" if is_here else "new", step.label)
        with ExitStack() as stack:
            worker = self._main if is_here else stack.enter_context(self._new())
            outcome = worker.run(source)[0]
        self._count_seconds([step.operation], [outcome])
        self._counts.ways[f"{step.way}{', refused' if outcome.error else ''}"] += 1
        if outcome.error and not set(operation.refusals) & set(outcome.error):
            raise _FailedError(f"{outcome.error[0]} in {step.operation} ({step.way})", outcome.trace, action)
        self._actions.append(dataclasses.replace(action, may_fail=bool(outcome.error)))
        if outcome.error:
            return [self.model]
        after = operation.apply(self.model, step.arguments)
        return [operation.seen(after, step.arguments, outcome.result, step.way)]

    def _killed(self, step: Step) -> list[Model]:
        source = f"killed_at(folder, {step.kill_at}, {step.kill_part!r})\n{self._source(step)}"
        action = Action((source,), "new", step.label, may_fail=True)
        with self._new(step.operation) as worker:
            outcome = worker.run(source)[0]
        self._count_seconds([step.operation], [outcome])
        self._counts.ways["killed" if outcome.error else "killed, too late"] += 1
        operation = OPERATIONS[step.operation]
        is_refused = not {*operation.refusals}.isdisjoint(outcome.error)
        if outcome.error and outcome.error != ("killed",) and not is_refused:
            raise _FailedError(f"{outcome.error[0]} in {step.operation} (killed)", outcome.trace, action)
        self._actions.append(action)
        if is_refused:
            return [self.model]
        after = operation.apply(self.model, step.arguments)
        after = operation.seen(after, step.arguments, outcome.result, step.way)
        if not outcome.error:
            return [after]
        models = [operation.broken_off(self.model), after]
        return [dataclasses.replace(model, was_killed=True) for model in models]

    def _pair(self, step: Step, other: Step) -> list[Model]:
        lines = [each.line for each in (step, other)]
        sources = [[self._source(each) for each in line] for line in lines]
        action = Action(tuple(map(_in_turn, sources)), "pair", step.label, may_fail=True)
        with self._new() as one, self._new() as two:
            for worker, programs in zip((one, two), sources, strict=True):
                worker.send(programs)
            outcomes = [worker.receive(len(line)) for worker, line in zip((one, two), lines, strict=True)]
        self._actions.append(action)
        for line, found in zip(lines, outcomes, strict=True):
            self._count_seconds([each.operation for each in line], found)
        is_refused = any(outcome.error for found in outcomes for outcome in found)
        self._counts.ways[f"pair{', refused' if is_refused else ''}"] += 1
        self._check_errors(lines, outcomes)
        made = [
            [(each, outcome) for each, outcome in zip(line, found, strict=False) if not outcome.error]
            for line, found in zip(lines, outcomes, strict=True)
        ]
        models = models_after(self.model, made)
        # who is refused, or makes a change again, leaves versions of members that nobody reads
        return [dataclasses.replace(each, strays=True) for each in models]

    def _check_errors(self, lines: Sequence[Sequence[Step]], outcomes: Sequence[Sequence[Outcome]]) -> None:
        """Raise for an error that neither a conflict explains, nor a step that makes no sense then.

        One makes no sense after the others, or after those of them that were not refused.
        """
        orders = list(interleaved(*([(each, Outcome()) for each in line] for line in lines)))
        for line, found in zip(lines, outcomes, strict=True):
            for number, (step, outcome) in enumerate(zip(line, found, strict=False)):
                operation = OPERATIONS[step.operation]
                allowed = {_CONFLICT, *operation.refusals, *operation.pair_refusals}
                rest = [OPERATIONS[each.operation] for other in lines if other is not line for each in other]
                allowed.update(operation.excused(self.model, rest))
                if not outcome.error or allowed & set(outcome.error):
                    continue
                done = [
                    [(each, end) for each, end in zip(steps, ends, strict=False) if not end.error]
                    for steps, ends in zip(lines, outcomes, strict=True)
                    if steps is not line
                ]
                before = [
                    (each, end) for each, end in zip(line[:number], found, strict=False) if not end.error
                ]
                without = interleaved([*before, (step, Outcome())], *done)
                makes_sense = all(model_after(self.model, order) for order in (*orders, *without))
                if outcome.error[0] in _NO_ANSWER or makes_sense:
                    text = f"{outcome.trace}\n{step.operation} in {lines}"
                    raise _FailedError(f"{outcome.error[0]} in {step.operation} (pair)", text)

    def _compare(self, allowed: Sequence[Model]) -> None:
        """Read everything in a new process, and go on with the model that it is."""
        source = read_all(self.model)
        sources = [source, self._members_source()] if self._settings.kind == "namespace" else [source]
        with self._new() as worker:
            outcomes = worker.run(*sources)
        self._count_seconds(["reading all rows", "reading members by pylance"], outcomes)
        outcome, *of_members = outcomes
        if outcome.error:
            raise _FailedError(
                f"{outcome.error[0]} in reading", outcome.trace, Action((source,), "new", "read")
            )
        version, fragments, unknown, (fields, texts) = outcome.result
        self._saw({"fragments of a table": fragments} if fragments else {})
        cleans_up = any(each.cleans_up for each in (self.model, *allowed))
        if unknown and not cleans_up and not self._may_leave_files():
            raise _FailedError("files in base paths", f"nothing refers to {unknown}")
        fields = [tuple(each) for each in fields]
        if not allowed:
            raise _FailedError("order", "the steps of two processes make sense in no order")
        for model in allowed:
            if model.state.is_read_as(fields, texts):
                break
        else:
            model = allowed[0]
            text = " or ".join(each.state.differences(fields, texts) for each in allowed)
            shown = f"result = canonical(everything({source.split(' = ', 1)[1].splitlines()[0]}))"
            is_table = self._settings.kind == "table" and model.state.is_ordered
            expected = (model.state.fields, model.state.texts) if is_table else as_read(model.state)
            action = Action((shown,), "new", "read", "equal" if is_table else "sorted", expected)
            raise _FailedError("rows", text, action)
        state = model.state
        if self._settings.kind == "table" and not state.is_ordered:
            state = state.in_order_of(texts)
        if model.cleans_up:
            model = model.without_versions([version - 1] if version - 1 == self._version else None)
        versions = dict(sorted((model.versions | {version: state}).items())[-8:])
        self.model = dataclasses.replace(model, state=state, versions=versions)
        self._version = version
        self._counts.add_check("all rows")
        if of_members:
            self._compare_members(of_members[0])

    def _may_leave_files(self) -> bool:
        """Return whether there may be files that no version names, or one that is gone already."""
        return not self._steps or self._steps[-1].way in ("killed", "pair")

    def _saw(self, sizes: Mapping[str, int]) -> None:
        """Take note of the largest sizes."""
        for name, size in sizes.items():
            self._sizes[name] = max(self._sizes[name], size)

    def _members_source(self) -> str:
        return f"result = members_by_pylance(root, {set(self._known_members)!r}, again=3)"

    def _compare_members(self, outcome: Outcome) -> None:
        """Compare the members as pylance reads them; those whose version is as before are read rarely."""
        action = Action(
            ("result = all_member_rows(root)",), "new", "members", "equal", self.model.state.sorted_texts
        )
        if outcome.error:
            raise _FailedError(f"{outcome.error[0]} in members by pylance", outcome.trace, action)
        sizes, read = outcome.result
        self._saw(sizes)
        found = {key: self._known_members[key] if rows is None else rows for key, rows in read.items()}
        changed = [
            key for key in found.keys() & self._known_members if found[key] != self._known_members[key]
        ]
        texts = [text for rows in found.values() for text in rows]
        state = self.model.state
        if changed or sorted(texts) != state.sorted_texts:
            text = f"versions that changed: {changed}; {state.differences(state.fields, texts)}"
            raise _FailedError("members by pylance", text, action)
        self._known_members = found
        self._counts.add_check("changed members by pylance")

    def check(self, checks: Sequence[Check]) -> None:
        """Ask more."""
        asked = [
            (each, QUESTIONS[each.name])
            for each in checks
            if QUESTIONS[each.name].is_valid(self.model, each.arguments)
        ]
        for way in ("here", "new"):
            these = [(each, question) for each, question in asked if each.way == way]
            if not these:
                continue
            sources = [question.source(self.model, each.arguments) for each, question in these]
            with ExitStack() as stack:
                worker = self._main if way == "here" else stack.enter_context(self._new())
                outcomes = worker.run(*sources)
            self._count_seconds([f"check: {question.name}" for _, question in these], outcomes)
            for (each, question), source, outcome in zip(these, sources, outcomes, strict=False):
                self._steps[-1] = dataclasses.replace(self._steps[-1], checks=(each,))
                self._answer(each, source, outcome)
                self._counts.add_check(question.name)

    def _answer(self, check: Check, source: str, outcome: Outcome) -> None:
        question = QUESTIONS[check.name]
        expected = question.expected(self.model, check.arguments)
        is_sorted = isinstance(expected, tuple)
        action = Action(
            (source,), check.way, f"check: {check.name}", "sorted" if is_sorted else "equal", expected
        )
        if outcome.error:
            raise _FailedError(f"{outcome.error[0]} in check {check.name}", outcome.trace, action)
        found = question.prepared(outcome.result)
        if found == expected:
            return
        text = f"found {_short(found)}, expected {_short(expected)}"
        if is_sorted:
            text = _row_differences(found, expected)
        raise _FailedError(f"check {check.name}", text, action)

    def failure(self, err: _FailedError) -> Failure:
        """Return the failure with all that led to it."""
        last = (err.action,) if err.action is not None else ()
        return Failure(err.kind, err.text, (*self._actions, *last), tuple(self._steps))


def _in_turn(sources: Sequence[str]) -> str:
    """Return one program of several; an error does not end it."""
    if len(sources) == 1:
        return sources[0]
    indented = ["\n".join(f"    {line}" for line in source.splitlines()) for source in sources]
    return "\n".join(f"try:\n{text}\nexcept Exception as err:\n    print(repr(err))" for text in indented)


def _row_differences(found: Any, expected: Any) -> str:
    if found[0] != expected[0]:
        return f"columns {found[0]}, expected {expected[0]}"
    missing = sorted(set(expected[1]) - set(found[1]))[:4]
    added = sorted(set(found[1]) - set(expected[1]))[:4]
    return f"{len(found[1])} rows, expected {len(expected[1])}; missing {missing}, not expected {added}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 1500 else f"{text[:1500]}…"


def run_history(
    model: Model,
    workers: Workers,
    counts: Counts,
    next_step: NextStep,
    next_checks: NextChecks,
    *,
    until: float | None = None,
) -> Failure | None:
    """Run a history until there are no more steps, time is up or something is wrong.

    Parameters
    ----------
    until
        As `time.monotonic` tells it.
    """
    folder = Path(tempfile.mkdtemp(prefix="lifecycle-"))
    history = History(model, folder, workers, counts)
    try:
        history.create()
        number = 0
        while (step := next_step(number, history.model)) is not None:
            history.step(step)
            history.check(next_checks(number, history.model))
            number += 1
            if until is not None and time.monotonic() > until:
                break
    except _FailedError as err:
        return history.failure(err)
    finally:
        history.close()
        shutil.rmtree(folder, ignore_errors=True)
    return None

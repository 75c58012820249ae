"""Clean-ups of tables and of namespaces: which versions are left, and that nothing else is."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from .model import Model
from .steps import Arguments, Operation


def draw_clean_up(rng: random.Random) -> Arguments:
    """Return how many versions are to be left, and whether files go that no version refers to."""
    return {
        "retain_versions": rng.choice([None, 1, 2, 5]),
        "delete_unverified": rng.random() < 0.6,
        "is_shared": False,
    }


def clean_up_of_pair(arguments: Arguments, *, is_single: bool) -> Arguments:
    """Return arguments that are right while another process writes.

    What the other one reads must stay: the newest version does, and of several, so many that it is among
    them.
    """
    retained = arguments["retain_versions"] if is_single else 30
    return arguments | {"retain_versions": retained, "delete_unverified": False, "is_shared": True}


def clean_up_text(arguments: Arguments) -> str:
    """Return the arguments of ``cleanup_old_versions``."""
    retained = arguments["retain_versions"]
    given = "older_than=dt.timedelta(0)" if retained is None else f"retain_versions={retained}"
    return f"{given}, delete_unverified={arguments['delete_unverified']}"


def cleaned_up(model: Model, arguments: Arguments, left: list[int] | None) -> Model:
    """Return the model after a clean-up, of which it is known which versions are left."""
    if left is None:
        return model
    was_cleaned = arguments["delete_unverified"] and model.settings.kind == "table"
    return dataclasses.replace(model, was_killed=model.was_killed and not was_cleaned)


def gone(model: Model, others: Sequence[Operation]) -> tuple[str, ...]:
    """Return the error where a version that is named, or was read by a transaction, may be gone."""
    removes = model.cleans_up or any(each.removes_versions for each in others)
    return ("VersionNotFoundError",) if removes else ()

"""Tries each assumption, and keeps the result."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from spark_azqueue.errors import AccessDenied, AzQueueError, ServiceError

from . import blob_rows, credential_rows, lease_rows, queue_rows
from .assumptions import ASSUMPTIONS, Assumption
from .bench import Bench, Differs, NotTried, missing

CHECKS: dict[str, Callable[[Bench], None]] = {
    **lease_rows.CHECKS,
    **queue_rows.CHECKS,
    **credential_rows.CHECKS,
    **blob_rows.CHECKS,
}
"""By the key of the assumption; those that are `untried` have none."""


class Verdict(str, enum.Enum):
    """The result of a row."""

    HOLDS = "holds"
    DIFFERS = "differs"
    KNOWN = "differs, as known"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Row:
    """An assumption and its result. detail: what the account does instead, or why not."""

    assumption: Assumption
    verdict: Verdict
    detail: str = ""


def rows(bench: Bench, assumptions: Iterable[Assumption] = ASSUMPTIONS) -> Iterator[Row]:
    """Try them one after the other. Never raises for what the account answers."""
    for each in assumptions:
        yield _row(bench, each)


def _row(bench: Bench, assumption: Assumption) -> Row:
    if assumption.untried:
        return Row(assumption, Verdict.NOT_TRIED, assumption.untried)
    try:
        CHECKS[assumption.key](bench)
    except Differs as found:
        if assumption.azurite and bench.server.startswith("Azurite"):
            return Row(assumption, Verdict.KNOWN, f"{found} (Azurite is known to)")
        return Row(assumption, Verdict.DIFFERS, str(found))
    except NotTried as reason:
        return Row(assumption, Verdict.NOT_TRIED, str(reason))
    except AccessDenied as error:
        return Row(assumption, Verdict.NOT_TRIED, missing(error))
    except ServiceError as error:
        refusal = f"HTTP {error.status} {error.code}".strip() if error.status else "no answer"
        return Row(assumption, Verdict.NOT_TRIED, f"on the way: {refusal}")
    except AzQueueError as error:
        return Row(assumption, Verdict.NOT_TRIED, error.condition.id)
    return Row(assumption, Verdict.HOLDS)

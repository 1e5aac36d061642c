"""Tests all assumptions. Prints the results, and writes them as Markdown and JSON for an issue.

No report contains a secret, the account's name, an address, or the id of a message.
"""

from __future__ import annotations

import enum
import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spark_azqueue.errors import AccessDenied, AzQueueError, ServiceError
from spark_azqueue.service.redaction import escaped, hide_secrets
from spark_azqueue.version import __version__

from .assumptions import ASSUMPTIONS, Area, Assumption
from .checks import CHECKS
from .measures import Measure
from .sandbox import Mismatch, NotTried, Sandbox, missing


class TrialOutcome(str, enum.Enum):
    """Result of an assumption."""

    HOLDS = "holds"
    DIFFERS = "differs"
    KNOWN = "differs, as known"
    NOT_TRIED = "not tried"


_MARKS = {
    TrialOutcome.HOLDS: "ok ",
    TrialOutcome.DIFFERS: "BAD",
    TrialOutcome.KNOWN: "~  ",
    TrialOutcome.NOT_TRIED: "-  ",
}
_ID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b")
_IN_MARKDOWN = re.compile(r"[\\`*_\[\]|~#!]")
_HOST = re.compile(
    r"\bhttps?://\S+|(?<![\w-])[\w-]+\.(?:queue|blob)\.[\w.]+|\b127\.0\.0\.1(?::\d+)?"
)


@dataclass(frozen=True)
class Trial:
    """An assumption and its result. detail: how the account behaves differently, or why the
    assumption was not tested.
    """

    assumption: Assumption
    outcome: TrialOutcome
    detail: str = ""


def rows(box: Sandbox, assumptions: Iterable[Assumption] = ASSUMPTIONS) -> Iterator[Trial]:
    """Test the assumptions one after the other. No answer of the account ends the tests."""
    for each in assumptions:
        yield _row(box, each)


def _row(box: Sandbox, assumption: Assumption) -> Trial:
    if assumption.untried:
        return Trial(assumption, TrialOutcome.NOT_TRIED, assumption.untried)
    try:
        CHECKS[assumption.key](box)
    except Mismatch as found:
        if assumption.azurite and box.server.startswith("Azurite"):
            return Trial(assumption, TrialOutcome.KNOWN, f"{found} (Azurite is known to)")
        return Trial(assumption, TrialOutcome.DIFFERS, str(found))
    except NotTried as reason:
        return Trial(assumption, TrialOutcome.NOT_TRIED, str(reason))
    except AccessDenied as error:
        return Trial(assumption, TrialOutcome.NOT_TRIED, missing(error))
    except ServiceError as error:
        refusal = f"HTTP {error.status} {error.code}".strip() if error.status else "no answer"
        return Trial(assumption, TrialOutcome.NOT_TRIED, f"on the way: {refusal}")
    except AzQueueError as error:
        return Trial(assumption, TrialOutcome.NOT_TRIED, error.condition.id)
    return Trial(assumption, TrialOutcome.HOLDS)


@dataclass(frozen=True)
class Results:
    """Results of a run. left: the queues and container that could not be removed."""

    rows: Sequence[Trial]
    measures: Sequence[Measure]
    requests: int
    seconds: float
    left: Sequence[str] = ()

    @property
    def differ(self) -> int:
        """Number of assumptions that do not hold, except known deviations of Azurite."""
        return sum(row.outcome is TrialOutcome.DIFFERS for row in self.rows)

    @property
    def summary(self) -> str:
        """The results in one line."""
        counts = Counter(row.outcome for row in self.rows)
        counted = ", ".join(
            f"{each.value}: {counts[each]}" for each in TrialOutcome if counts[each]
        )
        return f"{counted}; {self.requests:,} requests, {self.seconds:.0f} s"


def line(row: Trial) -> str:
    """Return a result as a line to print."""
    text = f"{_MARKS[row.outcome]}  {row.assumption.key}"
    text += f": {escaped(row.detail)}" if row.detail else ""
    if row.outcome is TrialOutcome.DIFFERS:
        text += f"\n     assumed: {row.assumption.says}\n     by: {row.assumption.where}"
    return text


def write(results: Results, file: Path, account: str) -> tuple[Path, Path]:
    """Write file.md and file.json, and return their paths. account: account name, which is removed
    from the texts.

    Raises OSError.
    """
    page, data = file.with_suffix(".md"), file.with_suffix(".json")
    fit = replace(
        results,
        rows=[replace(row, detail=clean(row.detail, account)) for row in results.rows],
        measures=[replace(each, value=clean(each.value, account)) for each in results.measures],
    )
    page.write_text(markdown(fit), encoding="utf-8")
    data.write_text(as_json(fit) + "\n", encoding="utf-8")
    return page, data


def clean(text: str, account: str) -> str:
    """Return a text as one line, with secrets, ids, addresses and the account's name removed."""
    hidden = _HOST.sub("…", _ID.sub("…", hide_secrets(text)))
    return escaped(re.sub(rf"\b{re.escape(account)}\b", "…", hidden) if account else hidden)


def markdown(results: Results) -> str:
    """Return the report as a page."""
    lines = [
        "# What this package assumes, on one account",
        "",
        f"spark-azqueue {__version__}. {results.summary}.",
    ]
    for area in Area:
        found = [row for row in results.rows if row.assumption.area is area]
        if not found:
            continue
        lines += ["", f"## {area.value}", "", "| assumption | result | |", "|---|---|---|"]
        for row in found:
            says = f"`{row.assumption.key}`: {row.assumption.says}".replace("|", "\\|")
            lines.append(f"| {says} | {_bold(row)} | {_cell(row.detail)} |")
    lines += ["", "## Measured", "", "| what | |", "|---|---|"]
    lines += [f"| {_cell(each.name)} | {_cell(each.value)} |" for each in results.measures]
    return "\n".join(lines) + "\n"


def as_json(results: Results) -> str:
    """Return the report as JSON."""
    return json.dumps(
        {
            "package": f"spark-azqueue {__version__}",
            "requests": results.requests,
            "seconds": round(results.seconds, 1),
            "rows": [
                {"key": r.assumption.key, "result": r.outcome.value, "detail": r.detail}
                for r in results.rows
            ],
            "measured": {each.name: each.value for each in results.measures},
        },
        indent=2,
    )


def _bold(row: Trial) -> str:
    return f"**{row.outcome.value}**" if row.outcome is TrialOutcome.DIFFERS else row.outcome.value


def _cell(text: str) -> str:
    """Return a text from the service with all Markdown and HTML escaped."""
    return _IN_MARKDOWN.sub(r"\\\g<0>", html.escape(escaped(text), quote=False))

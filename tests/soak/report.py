"""The outcome of a run as a table, and whether it is good."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from campaign import Campaign
from targets import Target

_SOURCE_GONE_WITHIN_S = 10.0
_STORIES_AT_MOST = 5


class Findings(Protocol):
    """The outcome of an audit."""

    @property
    def good(self) -> bool:
        """Whether each message is where it should be."""

    @property
    def stories(self) -> Mapping[str, str]:
        """For each message that should not be as it is: what happened to it."""

    def lines(self) -> list[tuple[str, str]]:
        """Names and values."""


def report(
    given: argparse.Namespace,
    campaign: Campaign,
    target: Target,
    findings: Findings,
    problems: list[str],
    seconds: float,
) -> tuple[bool, str]:
    """Return whether all is well, and the text to print."""
    problems = list(problems)
    if campaign.left:
        problems.append(f"{campaign.left} messages are left in the queues")
    if campaign.source_outlived_java_s > _SOURCE_GONE_WITHIN_S:
        problems.append(f"a source process outlived its JVM by more than {_SOURCE_GONE_WITHIN_S} s")
    good = findings.good and not problems and len(campaign.sent) == given.messages
    stops = sum(life.ended == "stop" for life in campaign.lives)
    rows: list[tuple[str, str]] = [
        ("sent", f"{len(campaign.sent)}"),
        ("left in the queues", f"{campaign.left}"),
        *findings.lines(),
        ("queries stopped by a second start", f"{campaign.fenced}"),
        ("kills", f"{campaign.kills.total()}  ({listed(campaign.kills)})"),
        ("  of these before the first batch", f"{campaign.early_ends}"),
        ("polite stops", f"{stops}"),
        ("runs that Spark ended by itself", f"{campaign.ended_by_spark}  (overloaded, or a race)"),
        ("restarts", f"{len(campaign.lives) - 1}"),
        ("runs with slow batches, short leases", f"{campaign.slow_lives}"),
        ("a source outlived its JVM by at most", f"{campaign.source_outlived_java_s:.1f} s"),
        *_requests(target, len(campaign.sent)),
        ("seconds", f"{seconds:.0f}"),
        ("seed", f"{given.seed}"),
    ]
    width = max(len(name) for name, _ in rows)
    lines = ["", *(f"{name:<{width}}  {value}" for name, value in rows)]
    lines += [f"PROBLEM: {problem}" for problem in problems]
    for id_, story in list(findings.stories.items())[:_STORIES_AT_MOST]:
        lines.append(f"message {id_} is not as it should be:\n{story}")
    lines.append("OK" if good else "NOT OK")
    return good, "\n".join(lines)


def _requests(target: Target, sent: int) -> list[tuple[str, str]]:
    """Requests, and what went wrong with them."""
    rows = []
    if stored := target.store_requests():
        rows.append(("requests to the log's store", f"{stored.total()}  ({listed(stored)})"))
        faulty = target.store_injected()
        share = f"{faulty.total() / stored.total():.2%} of requests: "
        rows.append(("faults of the store", f"{faulty.total()}  ({share}{listed(faulty)})"))
    requests, injected = target.requests(), target.injected()
    if total := requests.total():
        share = f"{injected.total() / total:.2%} of requests: " if injected else ""
        rows += [
            ("faults", f"{injected.total()}  ({share}{listed(injected)})"),
            ("requests", f"{total}  ({listed(requests)})"),
            ("requests per message", f"{total / max(1, sent):.3f}"),
        ]
    return rows


def listed(counts: Counter[str]) -> str:
    """Counts in words, the highest first."""
    return ", ".join(f"{name} {count}" for name, count in counts.most_common()) or "none"

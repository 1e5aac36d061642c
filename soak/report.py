"""The outcome of a run as a table, and whether it is good."""

from __future__ import annotations

import argparse
from collections import Counter

from audit import EXPLAINED, Findings, Window
from campaign import Campaign
from targets import Target

_SOURCE_GONE_WITHIN_S = 10.0
_STORIES_AT_MOST = 5


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
        problems.append(f"{campaign.left} messages are left in the queue")
    if campaign.source_outlived_java_s > _SOURCE_GONE_WITHIN_S:
        problems.append(f"a source process outlived its JVM by more than {_SOURCE_GONE_WITHIN_S} s")
    good = findings.good and not problems and len(campaign.sent) == given.messages
    requests = target.requests()
    total = sum(requests.values())
    injected = target.injected()
    stops = sum(life.ended == "stop" for life in campaign.lives)
    rows: list[tuple[str, str]] = [
        ("sent", f"{len(campaign.sent)}"),
        ("lost", f"{len(findings.lost)}"),
        ("processed", f"{findings.processed}  (rows in batches that Spark committed)"),
        ("left in the queue", f"{campaign.left}"),
        ("altered, or never sent", f"{len(findings.altered)}, {len(findings.foreign)}"),
        ("rows in the sink", f"{findings.rows}"),
        ("duplicated rows", f"{findings.duplicates.total()}  (by what became of the first row:)"),
    ]
    for window in Window:
        count = findings.duplicates[window]
        ended = f"; runs ended by {_list(findings.ended[window])}" if count else ""
        must = "  must be 0" if findings.is_bad(window) else ""
        explained = "with a log: never" if findings.is_exact else EXPLAINED[window]
        rows.append((f"  {window.value}", f"{count}{must}  [{explained}{ended}]"))
    if findings.is_exact:
        rows.append(("batches that came again with other rows", f"{findings.differing}"))
        rows.append(("batches given up", f"{findings.given_up}"))
        rows.append(("  rows again of their messages", f"{findings.again}"))
        rows.append(("  messages in poison queues", f"{findings.aside}"))
        rows.append(("queries stopped by a second start", f"{campaign.fenced}"))
    rows += [
        ("kills", f"{campaign.kills.total()}  ({_list(campaign.kills)})"),
        ("  of these before the first batch", f"{campaign.early_ends}"),
        ("polite stops", f"{stops}"),
        ("starts that Spark gave up", f"{campaign.not_started}  (the machine was overloaded)"),
        ("restarts", f"{len(campaign.lives) - 1}"),
        ("runs with slow batches, short leases", f"{campaign.slow_lives}"),
        ("a source outlived its JVM by at most", f"{campaign.source_outlived_java_s:.1f} s"),
    ]
    if stored := target.store_requests():
        rows.append(("requests to the log's store", f"{stored.total()}  ({_list(stored)})"))
        faulty = target.store_injected()
        share = f"{faulty.total() / stored.total():.2%} of requests: "
        rows.append(("faults of the store", f"{faulty.total()}  ({share}{_list(faulty)})"))
    if total:
        share = f"{injected.total() / total:.2%} of requests: " if injected else ""
        rows += [
            ("faults", f"{injected.total()}  ({share}{_list(injected)})"),
            ("requests", f"{total}  ({_list(requests)})"),
            ("requests per message", f"{total / max(1, len(campaign.sent)):.3f}"),
        ]
    rows += [("seconds", f"{seconds:.0f}"), ("seed", f"{given.seed}")]
    width = max(len(name) for name, _ in rows)
    lines = ["", *(f"{name:<{width}}  {value}" for name, value in rows)]
    lines += [f"PROBLEM: {problem}" for problem in problems]
    for id_, story in list(findings.stories.items())[:_STORIES_AT_MOST]:
        lines.append(f"message {id_} is not as it should be:\n{story}")
    lines.append("OK" if good else "NOT OK")
    return good, "\n".join(lines)


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common()) or "none"

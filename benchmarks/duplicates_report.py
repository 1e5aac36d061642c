"""The sections `duplicates` and `forgotten_keys` of results.md."""

from __future__ import annotations

import statistics

from figures import Saw, by, cpu_ms, median_of, rate, table


def duplicates(saw: Saw) -> str:
    """Each way, beside the same rows without looking at their keys."""
    groups = by(saw["rounds"], "rows", "name")
    rows = [
        [
            name,
            f"{size:,}",
            f"{median_of(rounds, rate):,.0f}",
            f"{median_of(rounds, cpu_ms):.4f}",
            f"{median_of(rounds, cpu_ms) - median_of(groups[size, 'none'], cpu_ms):.4f}",
            f"{rounds[-1]['keys']:,}",
            f"{median_of(rounds, lambda each: each['state_bytes']) / 2**20:.1f}",
            f"{median_of(rounds, lambda each: each['checkpoint_bytes']) / 2**20:.1f}",
        ]
        for (size, name), rounds in groups.items()
    ]
    head = (
        *("way", "rows a batch", "rows/s", "CPU ms/row", "of it for the keys", "keys in the state"),
        *("state in memory, MiB", "checkpoint, MiB"),
    )
    return table(head, rows)


def forgotten_keys(saw: Saw) -> str:
    """What there is after so many batches."""
    rounds = saw["rounds"]
    first = rounds[0]
    new = first["rows"] * 0.9
    rows = []
    for batch in range(10, first["files"] + 1, 10):
        points = [each["series"][batch - 1] for each in rounds]
        sent = [
            new * sum(0 <= point["at_s"] - other["at_s"] < first["within_s"] for other in each)
            for point, each in zip(points, [each["series"] for each in rounds], strict=True)
        ]
        shares = [point["keys"] / of for point, of in zip(points, sent, strict=True)]
        known = [each["checkpoint_bytes"] for each in points if each["checkpoint_bytes"]]
        rows.append(
            [
                batch,
                f"{statistics.median(each['at_s'] for each in points):.0f}",
                f"{new * batch:,.0f}",
                f"{statistics.median(each['keys'] for each in points):,.0f}",
                f"{statistics.median(shares):.2f}",
                f"{statistics.median(each['state_bytes'] for each in points) / 2**20:.1f}",
                f"{statistics.median(known) / 2**20:.1f}" if known else "",
            ]
        )
    head = (
        *("batches", "after s", "keys so far", "keys in the state"),
        f"times those of the last {first['within_s']} s",
        *("state in memory, MiB", "checkpoint, MiB"),
    )
    what = (
        f"`without_duplicates` with `within` = {first['within_s']} seconds, {first['rows']:,} rows"
        f" each {first['every_s']} s, {first['retained']} batches kept in the checkpoint:"
    )
    return f"{what}\n\n{table(head, rows)}"

"""The tables of the sections `executors`, `growth` and `service_limits`."""

from __future__ import annotations

from figures import Saw, by, cores_used, cpu_ms, median_of, ms, rate, table

_SINKS = {
    "ours-cluster": "noop",
    "ours-parquet-cluster": "Parquet",
    "ours-slow-cluster": "2 s a batch",
    "ours-delta-cluster": "Delta",
    "sdk-async": "none",
}
_PARQUET = "ours-parquet-cluster"
_DRIVER = ("source", "jvm", "driver")


def executors(saw: Saw) -> str:
    """The table, with a picture."""
    return f"![CPU of the driver, and messages per second](executors.png)\n\n{modes(saw)}"


def modes(saw: Saw) -> str:
    """Each mode beside `log`, which is the driver's mode with deleteAfter=log."""
    groups = by(saw["rounds"], "name", "size", "latency_s", "tls", "mode")
    rows = []
    for (name, size, latency, tls, mode), rounds in groups.items():
        by_hand = name == mode
        beside = groups[_PARQUET if by_hand else name, size, latency, tls, "log"]
        speed = median_of(rounds, rate)
        driver = median_of(rounds, lambda each: cpu_ms(each, *_DRIVER))
        total = median_of(rounds, cpu_ms)
        rows.append(
            [
                size,
                _SINKS[name],
                ms(latency) + (", TLS" if tls else ""),
                mode,
                f"{speed:,.0f}",
                f"{speed / median_of(beside, rate):.2f}",
                f"{driver:.4f}",
                f"{driver / median_of(beside, lambda each: cpu_ms(each, *_DRIVER)):.2f}",
                f"{total:.3f}",
                f"{total / median_of(beside, cpu_ms):.2f}",
                f"{median_of(rounds, lambda each: each['requests'] / each['messages']):.3f}",
                "" if by_hand else f"{max(each['batch']['rows'] for each in rounds):,}",
            ]
        )
    head = (
        *("bodies", "sink", "latency", "mode", "messages/s", "times log"),
        *("CPU ms/message: driver", "times log", "all but the server", "times log"),
        *("requests/message", "rows of a batch"),
    )
    return table(head, rows)


def limited(saw: Saw) -> str:
    """The modes, with queues that have a limit."""
    return f"Each queue answers {saw['queue_per_s']:,} requests/s:\n\n{modes(saw)}"


def growth(saw: Saw) -> str:
    """Messages per second by the number of executors."""
    groups = by(saw["rounds"], "slots")
    alone = median_of(groups[1,], rate)
    rows = [
        [
            slots,
            f"{(speed := median_of(rounds, rate)):,.0f}",
            f"{speed / alone:.2f}",
            f"{median_of(rounds, cpu_ms):.3f}",
            f"{median_of(rounds, cores_used):.2f}",
        ]
        for (slots,), rounds in groups.items()
    ]
    latency = ms(saw["rounds"][0]["latency_s"])
    head = ("tasks", "messages/s", "times one", "CPU ms/message", "cores used, with the server")
    what = f"{latency} added to every answer, six queues, 1 KB, noop, three executors of one core"
    return f"{what}, and as many tasks of a batch (`executorSlots`):\n\n{table(head, rows)}\n"


def service_limits(saw: Saw) -> str:
    """What 20 executors use of the limits, without the first plans, which learn them."""
    queues, queue_per_s, first = saw["queues"], saw["queue_per_s"], saw["rounds"][0]
    rows = []
    for each in saw["rounds"]:
        ran = each["ran"][len(each["ran"]) // 3 :]
        seconds = sum(plan["seconds"] for plan in ran)
        done, busy = (sum(plan[what] for plan in ran) for what in ("done", "busy"))
        account = each["account_per_s"]
        limit = min(queues * queue_per_s, account)
        rows.append(
            [
                each["slots"],
                f"{account:,}" if account == limit else "no limit",
                ms(each["latency_s"]),
                f"{done / seconds:,.0f}",
                f"{done / seconds / limit:.0%}",
                f"{busy / (busy + done):.1%}",
                f"{ran[-1]['messages']:,}",
            ]
        )
    head = (
        *("tasks at once", "requests/s of the account", "latency", "requests/s"),
        *("of the limit (wanted: 90%)", "answered 503", "messages of a batch"),
    )
    about = (
        f"Simulated: 20 executors, with four cores each (50 tasks) or with one (20 tasks); {queues}"
        f" full queues of {queue_per_s:,} requests/s; a sink that costs nothing, and"
        f" {first['gap_s']:g} s between two batches. Without the first third of"
        f" {len(first['ran'])} batches, which learn the limits."
    )
    return f"{about}\n\n{table(head, rows)}\n"

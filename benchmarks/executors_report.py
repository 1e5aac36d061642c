"""The tables of the sections `executors` and `growth`."""

from __future__ import annotations

from figures import Saw, by, cores_used, cpu_ms, median_of, ms, rate, table

_SINKS = {
    "ours-cluster": "noop",
    "ours-parquet-cluster": "Parquet",
    "ours-slow-cluster": "2 s a batch",
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
    """Messages per second by the number of executors; and what many use of the limits."""
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
    parts = [f"{what}, and as many tasks of a batch (`executorSlots`):", "", table(head, rows), ""]
    parts += [_simulated(each) for each in saw["simulated"]]
    return "\n".join(parts)


def _simulated(saw: Saw) -> str:
    """One simulation: the share of the limit, without the first plans, which learn it."""
    ran = saw["ran"][len(saw["ran"]) // 3 :]
    seconds = sum(each["seconds"] for each in ran)
    done, busy = (sum(each[what] for each in ran) for what in ("done", "busy"))
    limit = min(saw["queues"] * saw["queue_per_s"], saw["account_per_s"])
    return (
        f"Simulated: {saw['queues']} queues of {saw['queue_per_s']:,} requests/s, an account of"
        f" {saw['account_per_s']:,}, {saw['executors']} executors, {ms(saw['latency_s'])},"
        f" {saw['gap_s']:g} s between two batches: {done / seconds:,.0f} requests/s,"
        f" {done / seconds / limit:.0%} of the limit; {busy / (busy + done):.1%} were answered 503;"
        f" batches of {ran[-1]['messages']:,} messages.\n"
    )

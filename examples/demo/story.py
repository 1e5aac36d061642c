"""What happens in the demo, in order: start, send and stream at once, compare, report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pyspark
from azure.storage.queue import QueueClient

from flow import (
    QUEUE,
    Arrived,
    Feeder,
    Stream,
    compare,
    held,
    nothing_to_dequeue,
    open_queue,
)
from interrupt import Interrupt
from local_spark import local_spark
from orders import LONGEST_DELAY_S, make_orders
from picture import Sample, picture
from screen import Screen
from spark_azqueue.testing import Azurite

ORDERS = 3000
KILL_AFTER = 1000
"""So many orders are received when the source's process is killed."""

GIVE_UP_AFTER_S = 90.0
"""How long nothing at all may move."""

LOOK_EVERY_S = 0.25


def tell(screen: Screen, interrupt: Interrupt, folder: Path) -> bool:
    """Run it all; True where every order arrived exactly once and the queue is empty.

    Raises Interrupted once everything that ran is put away, and whatever else went wrong.
    """
    screen.line(f"{ORDERS:,} orders go through an Azure Storage Queue and Spark, both local:")
    orders = list(make_orders(ORDERS))
    interrupt.check()
    began = time.monotonic()
    with ExitStack() as stack:
        azurite = Azurite(folder.parent / ".azurite")
        starting = stack.enter_context(local_spark(folder / "spark"))
        stack.enter_context(azurite)
        screen.line(f"  Azurite     at {azurite.url}")
        interrupt.check()
        connection_string = azurite.connection_string
        queue = stack.enter_context(open_queue(connection_string))
        queue.create_queue()
        spark = starting.result()
        interrupt.check()
        screen.line(
            f"  Spark       {pyspark.__version__}, up after {time.monotonic() - began:.1f} s"
        )
        screen.line(
            f"  sink        JSON into the queue '{QUEUE}'; one in twenty delayed by up to"
            f" {LONGEST_DELAY_S} s"
        )
        screen.line("  source      from there into Parquet, with a total per order")
        stream = Stream(spark, connection_string, folder)
        stack.callback(stream.end)
        feeder = Feeder(spark, connection_string, orders)
        stack.callback(feeder.end)
        samples = watch(screen, interrupt, feeder, stream, queue)
        restarts = stream.restarts
        empty = nothing_to_dequeue(queue)
        stream.end()
        arrived = compare(spark, folder, orders)
    interrupt.check()
    drawn = picture(samples, *_titles(samples[-1], arrived))
    (folder / "picture.svg").write_text(drawn, encoding="utf-8")
    screen.line()
    screen.table(_table(samples[-1], arrived, restarts, empty, folder))
    last = samples[-1]
    good = empty and last.held == 0 and arrived.rows == arrived.right == ORDERS
    screen.line()
    if good:
        screen.line("Every order arrived exactly once, and the queue is empty.")
    else:
        screen.line(f"NOT as it should be: see the table, and {folder / 'demo.log'}")
    return good


def watch(
    screen: Screen,
    interrupt: Interrupt,
    feeder: Feeder,
    stream: Stream,
    queue: QueueClient,
) -> list[Sample]:
    """Show progress until all is sent, received and gone from the queue, or nothing moves any more.

    Raises Interrupted, or what stopped the feeder or the stream.
    """
    samples: list[Sample] = []
    began = time.monotonic()
    moved = 0.0
    killed = False
    while True:
        interrupt.check()
        feeder.check()
        stream.check()
        now = Sample(time.monotonic() - began, feeder.sent, stream.received(), held(queue))
        if not samples or replace(now, at=0.0) != replace(samples[-1], at=0.0):
            moved = now.at
        samples.append(now)
        if not killed and now.received >= KILL_AFTER and stream.kill():
            killed = True
            screen.line(f"  kill -9     the source's process, after {now.received:,} orders")
        arrived = now.received >= now.sent == ORDERS and now.held == 0
        finished = arrived and stream.restarts > 0
        ended = finished or now.at > moved + GIVE_UP_AFTER_S
        screen.progress(now.received, ORDERS, _state(samples), last=ended)
        if ended:
            return _from_first_order(samples)
        time.sleep(LOOK_EVERY_S)


def _from_first_order(samples: Sequence[Sample]) -> list[Sample]:
    """Without the time in which nothing had been sent yet (Spark takes seconds to warm up)."""
    before = [sample for sample in samples if not sample.sent and not sample.held]
    start = before[-1].at if before else 0.0
    return [replace(sample, at=sample.at - start) for sample in samples if sample.at >= start]


def _state(samples: Sequence[Sample]) -> str:
    now = samples[-1]
    before = next(sample for sample in samples if sample.at >= now.at - 4)
    passed = now.at - before.at
    rate = (now.received - before.received) / passed if passed else 0.0
    return (
        f"sent {now.sent:>5,}  received {now.received:>5,}  in the queue {now.held:>3}"
        f"  {rate:>4.0f}/s"
    )


def _rate(last: Sample, arrived: Arrived) -> float:
    return arrived.distinct / last.at if last.at else 0.0


def _titles(last: Sample, arrived: Arrived) -> tuple[str, str]:
    return (
        f"{last.sent:,} orders through an Azure Storage Queue and Spark",
        f"{last.at:.0f} seconds, {_rate(last, arrived):.0f} messages a second,"
        f" {arrived.duplicates} duplicates, {last.held} left in the queue"
        " (Azurite and Spark sharing one machine)",
    )


def _table(
    last: Sample, arrived: Arrived, restarts: int, empty: bool, folder: Path
) -> list[tuple[str, str, str]]:
    dequeue = "finds nothing" if empty else "still finds something"
    return [
        ("sent", f"{last.sent:,}", "orders that the queue acknowledged"),
        ("received", f"{arrived.distinct:,}", "distinct orders in the Parquet files"),
        ("unchanged", f"{arrived.right:,}", "with the customer and the total they were sent with"),
        ("duplicates", f"{arrived.duplicates:,}", ""),
        ("kills", f"{restarts}", "of the process that held the leases; the query started again"),
        ("settled", f"{last.sent - last.held:,}", "deleted from the queue"),
        ("left", f"{last.held:,}", f"in the queue by its own count; a dequeue {dequeue}"),
        ("seconds", f"{last.at:.1f}", "from the first order sent to the queue empty"),
        (
            "rate",
            f"{_rate(last, arrived):.0f}",
            "messages/s, with Azurite and Spark on this one machine",
        ),
        ("Parquet", "", str(folder / "orders")),
        ("picture", "", str(folder / "picture.svg")),
    ]

"""Contenders that consume a queue: receive every message, then delete it.

ours, ours-parquet     this package's source, into Spark's noop sink or Parquet files
ours-unix              the same, with spark.python.unix.domain.socket.enabled
ours-slow              the same into a sink that takes two seconds a batch
…-cluster              the same on executors that are processes of their own
ours-on-three          into the noop sink, on three such executors
ours-delta-cluster     into a Delta table, on Spark 4.2
sdk-1, sdk-32          azure-storage-queue by hand: 1 thread, 32 threads
sdk-async              azure-storage-queue's asyncio client by hand, 32 at once
raw                    nothing but the requests, over libcurl: the limit of one process

python benchmarks/consume.py NAME SERVER_URL     (a round of work for each line of JSON)
"""

from __future__ import annotations

import asyncio
import re
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import harness
from harness import DELTA, Server

Round = Callable[..., dict[str, Any]]

SLOW_SINK_S = 2.0


def alone(consume: Callable[[Server, str, int], None]) -> Round:
    """A round of a consumer that is all in this process. size: of a body, in bytes."""

    def run(server: Server, queue: str, count: int, size: int = 1000) -> dict[str, Any]:
        server.wait_until_quiet()
        server.fill(queue, count, size)
        stats = server.stats()
        before = time.process_time()
        started = time.monotonic()
        consume(server, queue, count)
        seconds = time.monotonic() - started
        used = time.process_time() - before
        after = server.stats()
        left = server.left(queue)
        assert left == 0, f"{left} messages are left"
        server.drop(queue)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {
            "messages": count,
            "seconds": seconds,
            "cpu": {"source": used, "server": after["cpu_s"] - stats["cpu_s"]},
            "memory_mb": {"source": peak},
            "requests": after["requests"] - stats["requests"],
        }

    return run


# ── by hand ───────────────────────────────────────────────────────────────────────────────────────


def sdk_threads(threads: int) -> Round:
    """Threads that each receive a page and delete its messages one by one, as the samples do."""

    def consume(server: Server, queue: str, count: int) -> None:
        client = harness.sdk_client(server, queue, threads)

        def work() -> None:
            while True:
                some = False
                for message in client.receive_messages(
                    messages_per_page=32, max_messages=32, visibility_timeout=300
                ):
                    client.delete_message(message)
                    some = True
                if not some:
                    return

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return alone(consume)


def sdk_async(at_once: int) -> Round:
    """Coroutines that each receive a page and delete its messages."""

    async def drain(server: Server, queue: str) -> None:
        from azure.storage.queue.aio import QueueClient

        async with QueueClient.from_connection_string(server.connection_string, queue) as client:

            async def work() -> None:
                while True:
                    some = False
                    async for message in client.receive_messages(
                        messages_per_page=32, max_messages=32, visibility_timeout=300
                    ):
                        await client.delete_message(message)
                        some = True
                    if not some:
                        return

            await asyncio.gather(*[work() for _ in range(at_once)])

    return alone(lambda server, queue, count: asyncio.run(drain(server, queue)))


def raw(server: Server, queue: str, count: int) -> None:
    """Requests over libcurl's multi interface, 64 at once, with next to nothing around them."""
    import pycurl

    handles: list[tuple[pycurl.Curl, list[bytes]]] = []
    multi = pycurl.CurlMulti()
    multi.setopt(pycurl.M_MAXCONNECTS, 64)
    for _ in range(64):
        curl, body = pycurl.Curl(), []
        curl.setopt(pycurl.WRITEFUNCTION, body.append)
        handles.append((curl, body))
    bodies = {id(curl): body for curl, body in handles}
    free = [curl for curl, _ in handles]
    deleting: set[int] = set()
    base = f"{server.queue_url}/{queue}/messages"
    found = re.compile(rb"<MessageId>(.*?)</MessageId>.*?<PopReceipt>(.*?)</PopReceipt>")
    due: list[str] = []
    left, received, receiving = count, 0, 0
    while left:
        while free:
            # Pages are fetched before the receipts run out, so that requests are always under way.
            fetch = receiving < 4 and len(due) < 128 and received + receiving * 32 < count
            if not (due or fetch):
                break
            curl = free.pop()
            bodies[id(curl)].clear()
            if not fetch:
                curl.setopt(pycurl.CUSTOMREQUEST, "DELETE")
                curl.setopt(pycurl.URL, due.pop())
                deleting.add(id(curl))
            else:
                curl.setopt(pycurl.CUSTOMREQUEST, "GET")
                curl.setopt(pycurl.URL, base + "?numofmessages=32&visibilitytimeout=300")
                receiving += 1
            multi.add_handle(curl)
        multi.perform()
        more, done, failed = multi.info_read()
        assert not failed, failed
        for curl in done:
            multi.remove_handle(curl)
            free.append(curl)
            if id(curl) in deleting:
                deleting.remove(id(curl))
                assert curl.getinfo(pycurl.RESPONSE_CODE) == 204
                left -= 1
            else:
                receiving -= 1
                page = found.findall(b"".join(bodies[id(curl)]))
                received += len(page)
                for name, receipt in page:
                    text = quote(receipt.decode(), safe="")
                    due.append(f"{base}/{name.decode()}?popreceipt={text}")
        if not more and not done:
            multi.select(1.0)


def slow_sink(batch: Any, _: int) -> None:
    """A sink that takes two seconds more for each batch."""
    batch.write.format("noop").mode("overwrite").save()
    time.sleep(SLOW_SINK_S)


def contender(name: str, server: Server, folder: str) -> Round:
    """What is called `name`, ready to work."""
    if name == "ours-on-three":
        import ours
        import spark

        return ours.Consumes("noop", folder, master=spark.THREE_EXECUTORS)
    if name == DELTA:
        import ours
        import spark

        return ours.Consumes("delta", folder, master=spark.CLUSTER, **spark.delta())
    if name == "ours-unix":
        import ours

        return ours.Consumes("noop", folder, **{"spark.python.unix.domain.socket.enabled": "true"})
    sinks: dict[str, Any] = {"ours": "noop", "ours-parquet": "parquet", "ours-slow": slow_sink}
    if name.removesuffix("-cluster") in sinks:
        import ours
        import spark

        master = spark.CLUSTER if name.endswith("-cluster") else spark.LOCAL
        return ours.Consumes(sinks[name.removesuffix("-cluster")], folder, master=master)
    by_hand = {
        "sdk-1": sdk_threads(1),
        "sdk-32": sdk_threads(32),
        "sdk-async": sdk_async(32),
        "raw": alone(raw),
    }[name]
    by_hand(server, f"{name}-warm", 320)  # imports and the like do not count
    return by_hand


def main() -> None:
    """Do the rounds that are asked for on standard input."""
    name, url = sys.argv[1:]
    server = Server(url)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        run = contender(name, server, folder)
        harness.answer({"ready": True})
        for number, work in enumerate(harness.rounds()):
            harness.answer(run(server, f"{name}-{number}", work.pop("messages"), **work))


if __name__ == "__main__":
    main()

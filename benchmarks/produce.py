"""Contenders that fill a queue: one put a message, from two processes.

ours            this package's sink, a batch write of two tasks
sdk-threads     azure-storage-queue by hand: two processes of 32 threads
sdk-async       azure-storage-queue's asyncio client by hand: two processes, 32 at once
raw             nothing but the requests, over libcurl: two processes, 32 at once

python benchmarks/produce.py NAME SERVER_URL     (a round of work for each line of JSON)
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import harness
from cost import Cost
from harness import CORES, Server

AT_ONCE = 32
WARM = 400


def body(size: int) -> str:
    """An event of about so many bytes, in JSON."""
    head = '{"id": "6f1c2f0e-0c5d-4c7e-9c53-7a1e0d5a3c11", "text": "'
    return (head + "lorem ipsum dolor " * (size // 18))[: size - 10] + '"}'


def sdk_threads(server: Server, queue: str, count: int, size: int) -> None:
    text = body(size)
    client = harness.sdk_client(server, queue, AT_ONCE)
    left = iter(range(count))

    def work() -> None:
        for _ in left:
            client.send_message(text)

    workers = [threading.Thread(target=work) for _ in range(AT_ONCE)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def sdk_async(server: Server, queue: str, count: int, size: int) -> None:
    text = body(size)

    async def fill() -> None:
        from azure.storage.queue.aio import QueueClient

        left = iter(range(count))
        async with QueueClient.from_connection_string(server.connection_string, queue) as client:

            async def work() -> None:
                for _ in left:
                    await client.send_message(text)

            await asyncio.gather(*[work() for _ in range(AT_ONCE)])

    asyncio.run(fill())


def raw(server: Server, queue: str, count: int, size: int) -> None:
    import pycurl

    multi = pycurl.CurlMulti()
    url = f"{server.queue_url}/{queue}/messages"
    text = escape(body(size))
    document = f"<QueueMessage><MessageText>{text}</MessageText></QueueMessage>".encode()
    free = []
    for _ in range(AT_ONCE):
        curl = pycurl.Curl()
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.POSTFIELDS, document)
        curl.setopt(pycurl.WRITEFUNCTION, lambda data: None)
        free.append(curl)
    left, busy = count, 0
    while left or busy:
        while free and left:
            multi.add_handle(free.pop())
            left, busy = left - 1, busy + 1
        multi.perform()
        more, done, failed = multi.info_read()
        assert not failed, failed
        for curl in done:
            assert curl.getinfo(pycurl.RESPONSE_CODE) == 201
            multi.remove_handle(curl)
            free.append(curl)
            busy -= 1
        if not more and not done:
            multi.select(1.0)


def in_processes(work: Callable[[Server, str, int, int], None]) -> Callable[..., dict[str, Any]]:
    """A round of work shared by processes that wait for it already."""
    pool = multiprocessing.get_context("spawn").Pool(CORES)

    def run(server: Server, queue: str, count: int, size: int = 1000) -> dict[str, Any]:
        pool.starmap(work, [(server, queue, WARM // CORES, size)] * CORES, chunksize=1)
        cost = Cost(server)
        pool.starmap(work, [(server, queue, count // CORES, size)] * CORES, chunksize=1)
        return cost.so_far()

    return run


def ours(folder: str) -> Callable[..., dict[str, Any]]:
    import spark

    session = spark.session(folder)
    log = Path(folder) / "transactions"

    def write(
        server: Server, queue: str, count: int, size: int = 1000, mode: str = "", **options: str
    ) -> None:
        if mode:  # a writer of its own for each write
            options |= {"transactionLog": f"file:{log}", "txnVersion": "1"}
            options["txnAppId"] = f"{queue}-{count}"
        rows = session.range(0, count, 1, CORES).selectExpr(f"'{body(size)}' AS body")
        rows.write.format("azqueue").mode("append").options(
            **{"secret.connectionString": server.connection_string, "queue": queue, **options}
        ).save()

    def run(server: Server, queue: str, count: int, **work: Any) -> dict[str, Any]:
        write(server, queue, WARM, **work)
        cost = Cost(server)
        write(server, queue, count, **work)
        return cost.so_far() | {"show_s": _show_s(log)}

    return run


def _show_s(log: Path) -> float:
    """How long the newest transaction took to show, as its mark says; 0 without one."""
    marks = sorted(log.glob("txn/*-m*"), key=lambda path: path.stat().st_mtime)
    if not marks:
        return 0.0
    return float(json.loads(marks[-1].read_bytes().split(b"\n")[0])["seconds"])


def main() -> None:
    """Do the rounds that are asked for on standard input."""
    name, url = sys.argv[1:]
    server = Server(url)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        by_hand = {"sdk-threads": sdk_threads, "sdk-async": sdk_async, "raw": raw}
        run = ours(folder) if name == "ours" else in_processes(by_hand[name])
        harness.answer({"ready": True})
        for number, work in enumerate(harness.rounds()):
            queue = f"put-{name}-{number}"
            count = work.pop("messages")
            server.fill(queue, 0)
            saw = run(server, queue, count, **work)
            assert server.left(queue) == count + WARM, server.left(queue)
            harness.answer({"messages": count, **saw})
            server.drop(queue)


if __name__ == "__main__":
    main()

"""Contenders that delete leased messages, 32 requests at once: what each HTTP client costs.

sdk-threads, sdk-async              azure-storage-queue
urllib3, http-client, curl-threads  32 threads
aiohttp, curl-multi                 one thread

The client has one core and the server another. Every client sends the same headers and asks of the
answer only whether it was 204.

python benchmarks/clients.py NAME SERVER_URL     (a round of work for each line of JSON)
"""

from __future__ import annotations

import asyncio
import http.client
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import harness
from harness import Server

AT_ONCE = 32
HEADERS = {"x-ms-version": "2021-12-02", "x-ms-date": "Sat, 21 Nov 2026 16:25:40 GMT"}
LINES = [f"{name}: {value}" for name, value in HEADERS.items()]

# As long as a shared access signature is; the server does not look at it.
SAS = (
    "sv=2021-12-02&se=2026-11-21T16%3A25%3A40Z&sp=raup&sig=abcdefghijklmnopqrstuvwxyz0123456789%3D"
)

Leases = deque[tuple[str, str]]


def lease(server: Server, queue: str, count: int) -> Leases:
    """Ids and receipts of `count` messages."""
    place = urlsplit(server.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port)
    found: deque[tuple[str, str]] = deque()
    while len(found) < count:
        target = f"/{server.account}/{queue}/messages?numofmessages=32&visibilitytimeout=600"
        connection.request("GET", target)
        page = connection.getresponse().read().decode()
        found += re.findall(r"<MessageId>(.*?)</MessageId>.*?<PopReceipt>(.*?)</PopReceipt>", page)
    connection.close()
    return found


def target(server: Server, queue: str, message: tuple[str, str]) -> str:
    name, receipt = message
    return f"/{server.account}/{queue}/messages/{name}?popreceipt={quote(receipt, safe='')}&{SAS}"


def in_threads(make_delete: Callable[[Server, str], Callable[[tuple[str, str]], None]]) -> Any:
    """Each thread takes one message after another."""

    def run(server: Server, queue: str, due: Leases) -> None:
        def work() -> None:
            delete = make_delete(server, queue)
            while True:
                try:
                    message = due.popleft()
                except IndexError:
                    return
                delete(message)

        workers = [threading.Thread(target=work) for _ in range(AT_ONCE)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return run


def sdk_threads(server: Server, queue: str, due: Leases) -> None:
    client = harness.sdk_client(server, queue, AT_ONCE)
    in_threads(lambda *_: lambda message: client.delete_message(*message))(server, queue, due)


def urllib3_threads(server: Server, queue: str, due: Leases) -> None:
    import urllib3

    pool = urllib3.PoolManager(maxsize=AT_ONCE)

    def delete(message: tuple[str, str]) -> None:
        url = server.url + target(server, queue, message)
        assert pool.urlopen("DELETE", url, headers=HEADERS, retries=False).status == 204

    in_threads(lambda *_: delete)(server, queue, due)


def http_client(server: Server, queue: str) -> Callable[[tuple[str, str]], None]:
    place = urlsplit(server.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port)

    def delete(message: tuple[str, str]) -> None:
        connection.request("DELETE", target(server, queue, message), headers=HEADERS)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 204

    return delete


def curl_handle() -> Any:
    import pycurl

    handle = pycurl.Curl()
    handle.setopt(pycurl.CUSTOMREQUEST, "DELETE")
    handle.setopt(pycurl.HTTPHEADER, LINES)
    handle.setopt(pycurl.NOSIGNAL, 1)
    handle.setopt(pycurl.TIMEOUT_MS, 30_000)
    handle.response = []
    handle.setopt(pycurl.WRITEFUNCTION, handle.response.append)
    handle.setopt(pycurl.HEADERFUNCTION, handle.response.append)
    return handle


def curl_threads(server: Server, queue: str) -> Callable[[tuple[str, str]], None]:
    import pycurl

    handle = curl_handle()

    def delete(message: tuple[str, str]) -> None:
        handle.response.clear()
        handle.setopt(pycurl.URL, server.url + target(server, queue, message))
        handle.perform()
        assert handle.getinfo(pycurl.RESPONSE_CODE) == 204

    return delete


def curl_multi(server: Server, queue: str, due: Leases) -> None:
    import pycurl

    multi = pycurl.CurlMulti()
    multi.setopt(pycurl.M_MAXCONNECTS, AT_ONCE)
    free, busy = [curl_handle() for _ in range(AT_ONCE)], 0
    while due or busy:
        while due and free:
            handle = free.pop()
            handle.response.clear()
            handle.setopt(pycurl.URL, server.url + target(server, queue, due.popleft()))
            multi.add_handle(handle)
            busy += 1
        multi.perform()
        _, done, failed = multi.info_read()
        assert not failed, failed
        for handle in done:
            assert handle.getinfo(pycurl.RESPONSE_CODE) == 204
            multi.remove_handle(handle)
            free.append(handle)
            busy -= 1
        if not done:
            multi.select(1.0)


async def taking_turns(due: Leases, delete: Any) -> None:
    async def work() -> None:
        while due:
            await delete(due.popleft())

    await asyncio.gather(*[work() for _ in range(AT_ONCE)])


async def sdk_async(server: Server, queue: str, due: Leases) -> None:
    from azure.storage.queue.aio import QueueClient

    async with QueueClient.from_connection_string(server.connection_string, queue) as client:
        await taking_turns(due, lambda message: client.delete_message(*message))


async def aiohttp_tasks(server: Server, queue: str, due: Leases) -> None:
    import aiohttp
    from yarl import URL

    connector = aiohttp.TCPConnector(limit=AT_ONCE)
    async with aiohttp.ClientSession(connector=connector) as client:

        async def delete(message: tuple[str, str]) -> None:
            url = URL(server.url + target(server, queue, message), encoded=True)
            async with client.delete(url, headers=HEADERS) as answer:
                await answer.read()
                assert answer.status == 204

        await taking_turns(due, delete)


CLIENTS: dict[str, Callable[[Server, str, Leases], None]] = {
    "sdk-threads": sdk_threads,
    "sdk-async": lambda *given: asyncio.run(sdk_async(*given)),
    "urllib3": urllib3_threads,
    "http-client": in_threads(http_client),
    "aiohttp": lambda *given: asyncio.run(aiohttp_tasks(*given)),
    "curl-threads": in_threads(curl_threads),
    "curl-multi": curl_multi,
}


def main() -> None:
    """Do the rounds that are asked for on standard input."""
    name, url = sys.argv[1:]
    server = Server(url)

    def delete(count: int) -> dict[str, Any]:
        server.fill(name, count)
        due = lease(server, name, count)
        before, started = time.process_time(), time.monotonic()
        CLIENTS[name](server, name, due)
        seconds, used = time.monotonic() - started, time.process_time() - before
        assert server.left(name) == 0
        return {"messages": count, "seconds": seconds, "cpu": {"client": used}}

    delete(320)  # imports and the like do not count
    harness.answer({"ready": True})
    for work in harness.rounds():
        harness.answer(delete(work["messages"]))


if __name__ == "__main__":
    main()

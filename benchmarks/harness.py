"""What the benchmarks share: the server, and contenders that take turns.

A contender is a process that says when it is ready, then does one round of work for each line it
reads, and answers with what it saw. So each has its own memory and its own CPU account, and rounds
of all can take turns.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests" / "support"))  # certificates.py
CORES = 2


@dataclass(frozen=True)
class Server:
    """A running benchmark server."""

    url: str
    account: str = "bench"

    @property
    def queue_url(self) -> str:
        """Base of the account's queues."""
        return f"{self.url}/{self.account}"

    @property
    def connection_string(self) -> str:
        """As users have it; the key is of no worth."""
        return f"AccountName={self.account};AccountKey=a2V5;QueueEndpoint={self.queue_url};"

    def fill(self, queue: str, count: int, size: int = 1000) -> None:
        """Create a queue and put messages of about `size` bytes into it, at no request each."""
        self._call(f"/{self.account}/{queue}?fill={count}&size={size}", "PUT")

    def drop(self, queue: str) -> None:
        """Delete a queue."""
        self._call(f"/{self.account}/{queue}", "DELETE")

    def left(self, queue: str) -> int:
        """How many messages are in a queue, visible or not."""
        return int(self.stats()["messages"].get(queue, 0))

    def stats(self) -> dict[str, Any]:
        """Requests answered, CPU seconds, messages by queue."""
        return json.loads(self._call("/-/stats"))  # type: ignore[no-any-return]

    def wait_until_quiet(self) -> None:
        """Wait for half a second without requests: a query that ended releases its leases.

        For a minute at most.
        """
        began = since = time.monotonic()
        seen = -1
        while time.monotonic() - since < 0.5 and time.monotonic() - began < 60:
            requests = self.stats()["requests"]
            if requests != seen:
                seen, since = requests, time.monotonic()
            time.sleep(0.1)

    def latency(self, seconds: float) -> None:
        """Delay every answer by so much from now on."""
        self._call(f"/-/latency?{seconds}")

    def rate(self, requests_per_s: float) -> None:
        """Answer no more requests to each queue than this (0: as many as come)."""
        self._call(f"/-/rate?{requests_per_s}")

    def cap(self, requests_per_s: float) -> None:
        """Answer 503 to what is beyond so many requests to each queue (0: nothing is)."""
        self._call(f"/-/cap?{requests_per_s}")

    def _call(self, path: str, method: str = "GET") -> bytes:
        request = urllib.request.Request(self.url + path, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read()  # type: ignore[no-any-return]


_TRUSTS = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
"""What requests (and we), and what Python's own TLS (so aiohttp) take authorities from."""


@contextmanager
def server(core: int | None = None, tls: bool = False) -> Iterator[Server]:
    """A server of its own process, on a free port; on one core only where that is given.

    tls: over HTTPS, with a throw-away authority that this process and those it starts trust.
    """
    with tempfile.TemporaryDirectory() as folder:
        options: list[str] = []
        if tls:
            from certificates import make_certificates

            made = make_certificates(Path(folder))
            options = ["--tls", str(made.certificate), str(made.key)]
            os.environ.update(dict.fromkeys(_TRUSTS, str(made.authority)))
        process = subprocess.Popen(
            [sys.executable, HERE / "server.py", *options], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout
            if core is not None:
                os.sched_setaffinity(process.pid, {core})
            scheme = "https" if tls else "http"
            yield Server(f"{scheme}://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()
            process.wait()
            if tls:
                for name in _TRUSTS:
                    del os.environ[name]


def sdk_client(server: Server, queue: str, connections: int) -> Any:
    """The SDK's client of one queue. By default it keeps 10 connections, and makes others anew."""
    from azure.core.pipeline.transport import RequestsTransport
    from azure.storage.queue import QueueClient
    from requests import Session
    from requests.adapters import HTTPAdapter

    session = Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=connections))
    return QueueClient.from_connection_string(
        server.connection_string,
        queue,
        transport=RequestsTransport(session=session, session_owner=False),
    )


def machine() -> dict[str, str]:
    """The machine, without its name."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(.*?)"', java.stderr)
    return {
        "CPU": f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, 2 of them used",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
        "Java": version[1] if version else "unknown",
    }


def two_cores() -> list[int]:
    """Keep this process, and those it starts, on two cores; returns which."""
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, cores)
    return cores


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 600.0) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.01)


# ── contenders ────────────────────────────────────────────────────────────────────────────────────


DELTA = "ours-delta-cluster"
"""It needs Spark 4.2, for which its Delta is built (`make test-delta` sets both up)."""
DELTA_PYTHON = HERE.parent / ".matrix" / "4.2" / "bin" / "python"
DELTA_JARS = HERE.parent / "jars" / "4.2"


class Contender:
    """A process that does rounds."""

    def __init__(
        self,
        script: str,
        name: str,
        on: Server,
        log: IO[str] | None = None,
        core: int | None = None,
    ) -> None:
        """`log`: takes what it writes to standard error. `core`: the only one it may use."""
        self.name = name
        self._process = subprocess.Popen(
            [DELTA_PYTHON if name == DELTA else sys.executable, HERE / script, name, on.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        if core is not None:
            os.sched_setaffinity(self._process.pid, {core})

        self._answer()  # ready

    def round(self, **work: Any) -> dict[str, Any]:
        """Do this work; returns what the contender saw of it."""
        assert self._process.stdin
        print(json.dumps(work), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            status = self._process.wait()
            raise RuntimeError(f"{self.name} ended with status {status}; see results/run.log")
        return json.loads(line)  # type: ignore[no-any-return]

    def end(self) -> None:
        """Let the process end."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()


def rounds() -> Iterator[dict[str, Any]]:
    """In a contender: the rounds that are asked for."""
    for line in sys.stdin:
        yield json.loads(line)


def answer(saw: dict[str, Any]) -> None:
    """In a contender: what was seen in a round."""
    print(json.dumps(saw), flush=True)

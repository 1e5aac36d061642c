"""A 401 that asks for a token of another service or tenant gets none, on any plane."""

from __future__ import annotations

import contextlib
import ssl
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from certificates import make_certificates
from queues import OneQueue
from refs import ORDERS

from spark_azqueue.errors import ServiceError
from spark_azqueue.service.account import Account, EntraIdentity
from spark_azqueue.service.blobs.container import Container
from spark_azqueue.service.blobs.folder import BlobFolder
from spark_azqueue.service.blobs.protection import protection_of
from spark_azqueue.service.blobs.references import Large, Reference
from spark_azqueue.service.blobs.store import BlobStore
from spark_azqueue.service.queues.management import create_queue, list_queues, read_metadata

STORAGE = "https://storage.azure.com/.default"
CHALLENGES = {
    "management": "Bearer authorization_uri=https://login.microsoftonline.com/evil/oauth2/authorize"
    " resource_id=https://management.azure.com",
    "vault": 'Bearer authorization="https://login.microsoftonline.com/evil",'
    ' resource="https://vault.azure.net", resource_id="https://vault.azure.net"',
    "claims": 'Bearer error="insufficient_claims", claims="eyJhIjogMX0="',
}


@dataclass
class Asked:
    """url: of a server that answers 401. scopes, more: what the credential was asked for."""

    url: str = ""
    challenge: str = ""
    scopes: list[tuple[str, ...]] = field(default_factory=list)
    more: list[dict[str, object]] = field(default_factory=list)
    sent: set[str | None] = field(default_factory=set)

    def get_token(self, *scopes: str, **more: object) -> AccessToken:
        self.scopes.append(scopes)
        self.more.append(more)
        return AccessToken(f"for-{'-'.join(scopes)}", 2**40)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    made = Asked()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            made.sent.add(self.headers.get("Authorization"))
            self.send_response(401)
            self.send_header("WWW-Authenticate", made.challenge)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

    for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
        setattr(Handler, f"do_{method}", Handler.answer)
    certificates = make_certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)

    def credential() -> Asked:
        return made

    monkeypatch.setitem(sys.modules, "asked", SimpleNamespace(credential=credential))  # type: ignore[arg-type]
    credential.__annotations__["return"] = Asked
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(certificates.certificate, certificates.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.socket = secure.wrap_socket(server.socket, server_side=True)
        made.url = f"https://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield made
        server.shutdown()
        thread.join()


def _properties(account: Account) -> Any:
    place = Container(account, "bodies", if_missing="")
    return protection_of(place, "a")


PLANES: dict[str, Any] = {
    "dequeue": lambda account: OneQueue(account, ORDERS).dequeue(1, 60),
    "create": lambda account: create_queue(account, "orders"),
    "metadata": lambda account: read_metadata(account, "orders"),
    "list": lambda account: list_queues(account, "orders"),
    "blob: put": lambda account: BlobStore(account, "bodies").put(Large(b"a", False)),
    "blob: get": lambda account: BlobStore(account, "bodies").get(Reference("bodies", "a", 1)),
    "blob: delete": lambda account: BlobStore(account, "bodies").delete("a"),
    "log: list": lambda account: BlobFolder(account, "logs", "orders").names("seg"),
    "log: get": lambda account: BlobFolder(account, "logs", "orders").get("log.json", 10),
    "log: put": lambda account: BlobFolder(account, "logs", "orders").put_new("log.json", b"a"),
    "log: delete": lambda account: BlobFolder(account, "logs", "orders").delete("log.json"),
    "properties": _properties,
}


@pytest.mark.parametrize("challenge", CHALLENGES)
@pytest.mark.parametrize("plane", PLANES)
def test_the_answer_does_not_choose_what_the_token_is_for(
    asked: Asked, plane: str, challenge: str
) -> None:
    asked.challenge = CHALLENGES[challenge]
    account = Account(
        "shop", f"{asked.url}/shop", identity=EntraIdentity(provider="asked:credential")
    )

    with contextlib.suppress(ServiceError):
        PLANES[plane](account)

    assert set(asked.scopes) == {(STORAGE,)}
    assert asked.sent == {f"Bearer for-{STORAGE}"}
    assert not any({"tenant_id", "claims"} & more.keys() for more in asked.more)

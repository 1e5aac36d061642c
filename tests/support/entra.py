"""Microsoft Entra on this machine: a throw-away certificate authority, Azurite over HTTPS, tokens.

Azurite (`--oauth basic`) looks at a token's claims, not at its signature, so tests can make them.
"""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from certificates import Certificates

CLIENT_SECRET = "not-for-any-log-0123456789"
CLIENT_ID = "11111111-2222-3333-4444-555555555555"
# MSAL asks no other host whether an authority of this tenant is to be trusted.
TENANT = "adfs"


def jwt(life_s: float = 3600, audience: str = "https://storage.azure.com") -> str:
    """A token whose claims Azurite accepts."""
    now = int(time.time())
    claims = {
        "aud": audience,
        "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
        "iat": now - 60,
        "nbf": now - 60,
        "exp": now + int(life_s),
    }
    return ".".join(map(_encoded, ({"alg": "RS256", "typ": "JWT"}, claims))) + ".c2lnbmVk"


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@dataclass
class TokenService:
    """What azure-identity asks for tokens. `issued`: how many, by how they were asked for."""

    authority: str = ""
    identity_endpoint: str = ""
    issued: Counter[str] = field(default_factory=Counter)
    tokens: list[str] = field(default_factory=list)

    def issue(self, way: str) -> str:
        self.issued[way] += 1
        self.tokens.append(jwt())
        return self.tokens[-1]


@contextlib.contextmanager
def token_service(certificates: Certificates) -> Iterator[TokenService]:
    """Serve an authority (HTTPS) and a managed identity's endpoint (HTTP) on 127.0.0.1."""
    service = TokenService()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "/.well-known/openid-configuration" in self.path:
                base = f"{service.authority}/{TENANT}"
                self._answer(
                    {
                        "issuer": base,
                        "authorization_endpoint": f"{base}/authorize",
                        "token_endpoint": f"{base}/token",
                    }
                )
            elif self.headers.get("X-IDENTITY-HEADER"):
                token = service.issue("managed identity")
                expires = str(int(time.time()) + 3600)
                self._answer({"access_token": token, "expires_on": expires, "resource": "any"})
            else:
                self._answer({"error": "not_found"}, 404)

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if "client_assertion=" in form:
                way = "assertion"
            elif f"client_secret={CLIENT_SECRET}" in form:
                way = "secret"
            else:
                self._answer({"error": "invalid_client"}, 401)
                return
            token = service.issue(way)
            self._answer({"access_token": token, "expires_in": 3600, "token_type": "Bearer"})

        def _answer(self, value: dict[str, object], status: int = 200) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Quiet."""

    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(certificates.certificate, certificates.key)
    with contextlib.ExitStack() as stack:
        for scheme in ("https", "http"):
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            server.daemon_threads = True
            if scheme == "https":
                server.socket = secure.wrap_socket(server.socket, server_side=True)
                service.authority = f"https://127.0.0.1:{server.server_port}"
            else:
                service.identity_endpoint = f"http://127.0.0.1:{server.server_port}/msi/token"
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
        yield service

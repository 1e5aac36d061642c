"""Authentication and permissions: checks credentials, and the permission for each operation.

The fake checks the audience and the validity period of a bearer token. The fake does not check the
signature, because tests do not have the key of an authority. A text that is not a JSON Web Token
gets 400, as on the service (recorded).
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from . import errors, routing, sas, shared_key
from .routing import RoutedCall
from .wire import HttpRequest

ALL_PERMISSIONS = frozenset("raupcdlw")

_AUDIENCE = "https://storage.azure.com"
_TOKEN_HEADER = {"alg": "RS256", "typ": "JWT"}


class _Need(NamedTuple):
    type: str
    """The resource type: s(ervice), c(ontainer, a queue) or o(bject, a message)."""
    letters: str
    """Permissions for the operation. The credential needs one of them."""


# REST reference, "Create an account SAS", table of permissions by operation.
_NEEDS = {
    "list": _Need("s", "l"),
    "create": _Need("c", "cw"),
    "delete_queue": _Need("c", "d"),
    "properties": _Need("c", "r"),
    "set_metadata": _Need("c", "w"),
    "put": _Need("o", "a"),
    "dequeue": _Need("o", "p"),
    "peek": _Need("o", "r"),
    "delete": _Need("o", "p"),
    "clear": _Need("o", "d"),
    "update": _Need("o", "u"),
}
_SIGNED = (
    *("sv", "ss", "srt", "sp", "st", "se", "sip", "spr", "ses", "si", "sig"),
    *("skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid"),
)


class Gate:
    """Refuses requests that the service would refuse because of the credential.

    `time`: returns the time for checks of credentials, in unix seconds.
    """

    def __init__(
        self, account: str, key: str, versions: frozenset[str], time: Callable[[], float]
    ) -> None:
        self.account = account
        self.versions = versions
        self.permissions = ALL_PERMISSIONS
        self.time = time
        self.use(key)

    def use(self, key: str) -> None:
        """Set the account key. Raises ValueError if it is not base64."""
        try:
            self.secret = base64.b64decode(key, validate=True)
        except ValueError:
            raise ValueError("the account's key is not base64 text (not shown)") from None
        self.key = key

    def allow(self, letters: Iterable[str]) -> None:
        """Set the permissions that callers have. Raises ValueError for an unknown permission."""
        chosen = frozenset(letters)
        if not chosen <= ALL_PERMISSIONS:
            raise ValueError(f"no such permissions: {sorted(chosen - ALL_PERMISSIONS)}")
        self.permissions = chosen

    def admit(self, call: RoutedCall, request: HttpRequest) -> None:
        """Raise Refusal for a request that is not authenticated or not permitted."""
        routing.check_version(request, call.query, self.versions)
        need = _NEEDS[call.op]
        granted = self.permissions
        signed = "sig" in call.query
        user = ""
        if signed:
            letters, user = self._sas_grant(call, need)
            granted &= letters
        claims = self._check_header(request) if "authorization" in request.fields else {}
        if user and claims.get("oid") != user:
            raise errors.not_authenticated("The SAS is bound to a user, whose token is missing.")
        if not signed and "authorization" not in request.fields:
            raise errors.nothing_given()
        if granted.isdisjoint(need.letters):
            raise errors.not_permitted()

    def _check_header(self, request: HttpRequest) -> dict[str, Any]:
        """Verify the Authorization header. Return the claims of a token."""
        scheme, _, credential = request.fields["authorization"].partition(" ")
        if scheme in ("SharedKey", "SharedKeyLite"):
            shared_key.verify(request, self.account, self.secret, self.time())
        elif scheme == "Bearer":
            return _check_token(credential, self.time())
        else:
            raise errors.malformed()
        return {}

    def _sas_grant(self, call: RoutedCall, need: _Need) -> tuple[frozenset[str], str]:
        """Return the permissions of a SAS, and the user to whom it is bound ("" if none)."""
        query = call.query
        grant = _read(
            tuple(map(query.get, _SIGNED)), self.account, call.queue, self.secret, self.versions
        )
        sas.check_time_and_place(grant, self.time())
        if grant.services is None:
            if need.letters not in sas.QUEUE_LETTERS:
                raise errors.not_for_a_sas()
            return grant.letters, grant.user
        if "q" not in grant.services:
            raise errors.wrong_service()
        if need.type not in grant.types:
            raise errors.wrong_resource_type()
        return grant.letters, ""


# A client sends the same SAS with every request. So results are cached, and a signature is usually
# verified only once.
@functools.lru_cache(maxsize=256)
def _read(
    values: tuple[str | None, ...],
    account: str,
    queue: str,
    key: bytes,
    served: frozenset[str],
) -> sas.Grant:
    given = {name: text for name, text in zip(_SIGNED, values, strict=True) if text is not None}
    return sas.read(given, account, queue, key, served)


def make_token(now: float, life: float = 3600.0, **claims: object) -> str:
    """Return a token that expires `life` seconds after `now`. claims: further claims, such as
    `oid`.
    """
    payload = {"aud": _AUDIENCE, "iat": int(now), "nbf": int(now), "exp": int(now + life), **claims}
    return ".".join([_encoded_part(_TOKEN_HEADER), _encoded_part(payload), "c2lnbmVk"])


def _check_token(token: str, now: float) -> dict[str, Any]:
    """Return the claims of a token. Raises Refusal: 400 if the text is not a token, 401 if the
    token is not valid for this service.
    """
    parts = token.split(".")
    header, claims = (
        (_decoded_part(part) for part in parts[:2]) if len(parts) == 3 else (None, None)
    )
    if header is None or claims is None:
        raise errors.malformed()
    expires = claims.get("exp")
    if not isinstance(expires, (int, float)) or expires <= now:
        raise errors.token_refused("Lifetime validation failed. The token is expired.")
    if str(claims.get("aud", "")).rstrip("/") != _AUDIENCE:
        raise errors.token_refused("Audience validation failed. Audience did not match.")
    return claims


def _encoded_part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode("ascii").rstrip("=")


def _decoded_part(part: str) -> dict[str, Any] | None:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None

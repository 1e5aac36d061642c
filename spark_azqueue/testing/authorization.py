"""Authentication and permissions: checks credentials, and what each operation needs."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from . import delegation, denials, sas, shared_key, tokens, versions
from .delegation import DelegationKey
from .routing import Call
from .wire import Request

ALL_PERMISSIONS = frozenset("raupcdlw")


class _Need(NamedTuple):
    type: str
    """The resource type: s(ervice), c(ontainer, a queue) or o(bject, a message)."""
    letters: str
    """Any one of them is enough."""


# REST reference, "Create an account SAS", its table of permissions by operation.
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
    """Admits requests, or refuses them as the service would.

    `time`: returns the time at which credentials are checked, in unix seconds. Of bearer tokens,
    the signature is not checked: see `tokens`.
    """

    def __init__(
        self, account: str, key: str, versions: frozenset[str], time: Callable[[], float]
    ) -> None:
        self.account = account
        self.versions = versions
        self.permissions = ALL_PERMISSIONS
        self._time = time
        self.use(key)

    def use(self, key: str) -> None:
        """Set the account key. Raises ValueError if it is not base64."""
        try:
            self._secret = base64.b64decode(key, validate=True)
        except ValueError:
            raise ValueError("the account's key is not base64 text (not shown)") from None
        self.key = key

    def allow(self, letters: Iterable[str]) -> None:
        """Set what callers may do. Raises ValueError for an unknown letter."""
        chosen = frozenset(letters)
        if not chosen <= ALL_PERMISSIONS:
            raise ValueError(f"no such permissions: {sorted(chosen - ALL_PERMISSIONS)}")
        self.permissions = chosen

    def token(self, life: float, **claims: object) -> str:
        """Make a bearer token."""
        return tokens.make(self._time(), life, **claims)

    def sas(self, queue: str | None, letters: str | None, types: str, life: float) -> str:
        """Make a SAS for a queue, or for the account (queue None). letters None: all letters."""
        expiry = self._time() + life
        if queue is not None:
            chosen = sas.QUEUE_LETTERS if letters is None else letters
            return sas.for_queue(self.account, queue, self._secret, letters=chosen, expiry=expiry)
        chosen = "".join(sorted(ALL_PERMISSIONS)) if letters is None else letters
        return sas.for_account(
            self.account, self._secret, letters=chosen, types=types, expiry=expiry
        )

    def delegation_key(self, life: float) -> DelegationKey:
        """Make a user delegation key."""
        return delegation.make_key(self._secret, self._time(), life)

    def delegated_sas(self, queue: str, letters: str, life: float, user: str) -> str:
        """Make a SAS for a queue with such a key."""
        key = self.delegation_key(delegation.LONGEST_S)
        expiry = self._time() + life
        return delegation.make_sas(key, self.account, queue, letters, expiry, user)

    def admit(self, call: Call, request: Request) -> None:
        """Raise Refusal for a request that is not authenticated or not permitted."""
        versions.check(request, call.query, self.versions)
        need = _NEEDS[call.op]
        granted = self.permissions
        signed = "sig" in call.query
        user = ""
        if signed:
            letters, user = self._sas_grant(call, need)
            granted &= letters
        claims = self._check_header(request) if "authorization" in request.fields else {}
        if user and claims.get("oid") != user:
            raise denials.not_authenticated("The SAS is bound to a user, whose token is missing.")
        if not signed and "authorization" not in request.fields:
            raise denials.nothing_given()
        if granted.isdisjoint(need.letters):
            raise denials.not_permitted()

    def _check_header(self, request: Request) -> dict[str, Any]:
        """Verify the Authorization header; return the claims of a token."""
        scheme, _, credential = request.fields["authorization"].partition(" ")
        if scheme in ("SharedKey", "SharedKeyLite"):
            shared_key.verify(request, self.account, self._secret, self._time())
        elif scheme == "Bearer":
            return tokens.check(credential, self._time())
        else:
            raise denials.malformed()
        return {}

    def _sas_grant(self, call: Call, need: _Need) -> tuple[frozenset[str], str]:
        """The letters of a SAS, and the user that it is bound to."""
        query = call.query
        grant = _read(
            tuple(map(query.get, _SIGNED)), self.account, call.queue, self._secret, self.versions
        )
        sas.check_time_and_place(grant, self._time())
        if grant.services is None:
            if need.letters not in sas.QUEUE_LETTERS:
                raise denials.not_for_a_sas()
            return grant.letters, grant.user
        if "q" not in grant.services:
            raise denials.wrong_service()
        if need.type not in grant.types:
            raise denials.wrong_resource_type()
        return grant.letters, ""


# A client sends the same SAS with every request, so most signatures are verified once.
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

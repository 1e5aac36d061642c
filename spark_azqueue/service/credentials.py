"""Authentication of requests. A process creates its credential once, and renews SAS and tokens
before they expire.

An account key does not sign each request. The key signs a SAS for one queue or container, and the
URLs of requests contain this SAS.
"""

from __future__ import annotations

import datetime
import enum
import re
import threading
import time
from typing import TYPE_CHECKING, Any

from spark_azqueue.errors import AccessDenied
from spark_azqueue.errors.conditions import Condition

from .account import Account, EntraIdentity, IdentityKind, account_sas, container_sas, queue_sas
from .databricks import service_credential
from .fabric import FabricCredential
from .network import trusted_authorities
from .providers import provided
from .redaction import shown
from .sas_provider import renewed_sas

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential

TOKEN_SCOPE = "https://storage.azure.com/.default"  # noqa: S105 (a scope, not a secret)
_SAS_LIFE_S = 6 * 3600.0
_REFRESH_EARLY_S = 300.0
_TOKEN = re.compile(r"[!-~]+")
_LONGEST_REASON = 4_000


class Plane(enum.Enum):
    """A service of the account. The value is the service's letter in the SAS parameter `ss`."""

    QUEUES = "q"
    BLOBS = "b"


class Authority:
    """Authenticates requests."""

    def sign(self, scope: str, url: str, headers: dict[str, str]) -> str:
        """Return the URL with the credential, and add headers if needed.

        url: a URL that already has a query part. scope: name of the queue or container, or "" for
        the account.
        """
        raise NotImplementedError

    def refresh(self) -> bool:
        """Forget the SAS or token, because the service refused it.

        Returns True if the next request will get a new SAS or token.
        """
        return False


def join_sas(url: str, sas: str) -> str:
    """Append a SAS to a URL that has a query part. The query part may be empty."""
    return url + ("" if url.endswith("?") else "&") + sas


class _FixedSas(Authority):
    def __init__(self, sas: str) -> None:
        self._sas = sas

    def sign(self, scope: str, url: str, headers: dict[str, str]) -> str:
        return join_sas(url, self._sas)


class _KeyedSas(Authority):
    """Signs a short-lived SAS for each scope with the account key, so that requests need no
    signature.
    """

    def __init__(self, account: Account, plane: Plane) -> None:
        self._account = account
        self._plane = plane
        self._lock = threading.Lock()
        self._made: dict[str, tuple[str, float]] = {}

    def sign(self, scope: str, url: str, headers: dict[str, str]) -> str:
        sas, best_before = self._made.get(scope, ("", 0.0))
        if time.monotonic() >= best_before:
            sas = self._make(scope)
        return join_sas(url, sas)

    def _make(self, scope: str) -> str:
        name, key = self._account.name, self._account.key or ""
        now = datetime.datetime.now(datetime.timezone.utc)
        expiry = now + datetime.timedelta(seconds=_SAS_LIFE_S)
        https = self._account.url.startswith("https:")
        if not scope:
            sas = account_sas(name, key, self._plane.value, expiry, https=https)
        else:
            make = queue_sas if self._plane is Plane.QUEUES else container_sas
            sas = make(name, key, scope, expiry, https=https)
        at = time.monotonic()
        with self._lock:  # drop expired SAS, because their queues may be deleted
            self._made = {name: made for name, made in self._made.items() if made[1] > at}
            self._made[scope] = (sas, at + _SAS_LIFE_S / 2)
        return sas

    def refresh(self) -> bool:
        # A SAS may expire before this process expects it: the monotonic clock may stop while a
        # machine sleeps.
        with self._lock:
            self._made.clear()
        return True


class _ProvidedSas(Authority):
    def __init__(self, account: Account) -> None:
        self._sas = renewed_sas(account)

    def sign(self, scope: str, url: str, headers: dict[str, str]) -> str:
        return join_sas(url, self._sas.current())

    def refresh(self) -> bool:
        self._sas.renew()
        return True


class _Both(Authority):
    """Authenticates with a SAS that is bound to a user, and a token of this user."""

    def __init__(self, sas: Authority, token: Authority) -> None:
        self._sas, self._token = sas, token

    def sign(self, scope: str, url: str, headers: dict[str, str]) -> str:
        return self._token.sign(scope, self._sas.sign(scope, url, headers), headers)

    def refresh(self) -> bool:
        renewed = self._sas.refresh()
        return self._token.refresh() or renewed


class _Bearer(Authority):
    def __init__(self, credential: TokenCredential) -> None:
        self._credential = credential
        self._lock = threading.Lock()
        self._header, self._best_before = "", 0.0

    def sign(self, scope: str, url: str, headers: dict[str, str]) -> str:
        with self._lock:
            if time.time() >= self._best_before:
                token = self._token()
                self._header = f"Bearer {token.token}"
                # A token whose lifetime is shorter than the margin is used for half of its
                # lifetime.
                life = token.expires_on - time.time()
                self._best_before = time.time() + max(life - _REFRESH_EARLY_S, life / 2)
            headers["Authorization"] = self._header
        return url

    def _token(self) -> AccessToken:
        # imported here, because the import takes 0.03 s, and an account key does not need it
        from azure.core.exceptions import AzureError

        giver = type(self._credential).__name__
        try:
            token = self._credential.get_token(TOKEN_SCOPE)
        except AzureError as error:
            reason = shown(error, _LONGEST_REASON, lines=True)
            raise AccessDenied(
                f"no Microsoft Entra token from {giver}: {reason}", condition=Condition.NO_TOKEN
            ) from error
        except AccessDenied:
            raise
        except Exception as error:  # noqa: BLE001 (of the user's, and it may hold a secret)
            raise AccessDenied(
                f"no Microsoft Entra token from {giver}.get_token: {type(error).__name__}:"
                f" {shown(error)}. Correct the credential",
                condition=Condition.NO_TOKEN,
            ) from None
        text, ends_at = getattr(token, "token", None), getattr(token, "expires_on", None)
        if not isinstance(ends_at, (int, float)):
            raise AccessDenied(
                f"{giver}.get_token returned a {type(token).__name__} without a time in"
                " 'expires_on'; expected an azure.core AccessToken. Correct the credential",
                condition=Condition.NO_TOKEN,
            )
        if not isinstance(text, str) or not _TOKEN.fullmatch(text):
            raise AccessDenied(
                f"the token from {giver} cannot be sent in a header: it is empty, or holds blanks,"
                " line breaks or other characters that no token has (value not shown). Correct the"
                " credential",
                condition=Condition.NO_TOKEN,
            )
        return token

    def refresh(self) -> bool:
        with self._lock:
            self._best_before = 0.0
        return True


def authority_for(account: Account, plane: Plane = Plane.QUEUES) -> Authority:
    """Return the object that signs requests to this account.

    Raises InvalidOption for a bad provider.

    plane: the service at the account's `url`.
    """
    made: Authority | None = None
    if account.sas:
        made = _FixedSas(account.sas)
    elif account.sas_provider:
        made = _ProvidedSas(account)
    elif account.key:
        return _KeyedSas(account, plane)
    if made and not account.identity:
        return made
    token = _Bearer(token_credential(account.identity or EntraIdentity(IdentityKind.DEFAULT)))
    return _Both(made, token) if made else token


def token_credential(identity: EntraIdentity) -> TokenCredential:
    """Make the credential object in this process. Raises InvalidOption for a bad provider."""
    if identity.provider:
        return provided(identity.provider, identity.argument)
    if identity.kind is IdentityKind.DATABRICKS:
        return service_credential(identity.service_credential or "")
    if identity.kind is IdentityKind.FABRIC:
        return FabricCredential()
    # imported here, because the import takes 0.15 s, and most users have a key or a SAS
    import azure.identity as kinds

    client: dict[str, Any] = {"client_id": identity.client_id} if identity.client_id else {}
    tenant: dict[str, Any] = {"tenant_id": identity.tenant_id} if identity.tenant_id else {}
    trust: dict[str, Any] = {"connection_verify": trusted_authorities()}
    made: TokenCredential
    if identity.kind is IdentityKind.MANAGED_IDENTITY:
        made = kinds.ManagedIdentityCredential(**client, **trust)
    elif identity.kind is IdentityKind.WORKLOAD_IDENTITY:
        made = kinds.WorkloadIdentityCredential(**tenant, **client, **trust)
    elif identity.kind is IdentityKind.SERVICE_PRINCIPAL:
        secret = identity.client_secret or ""
        made = kinds.ClientSecretCredential(**tenant, **client, client_secret=secret, **trust)
    elif identity.kind is IdentityKind.AZURE_CLI:
        made = kinds.AzureCliCredential(**tenant)
    else:
        made = kinds.DefaultAzureCredential(managed_identity_client_id=identity.client_id, **trust)
    return made

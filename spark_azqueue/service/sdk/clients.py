"""The Azure SDK as this package uses it: makes clients, limits their time, translates errors.

The SDK takes most of a second to import, and the sink's tasks seldom need it. So functions import
it when they need it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)

from spark_azqueue.errors import AccessDenied, ServiceError

from .. import fields
from ..account import API_VERSION, Account, EntraIdentity
from ..answers import service_error, untrusted_certificate
from ..credentials import StorageTokens, token_credential
from ..retry import RetryPolicy
from ..sas_provider import renewed_sas
from .deadline import BrokenOff, in_time, seconds_left

if TYPE_CHECKING:
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential

T = TypeVar("T")


_REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})


def retried(
    seconds: float,
    retry_s: float,
    work: Callable[..., T],
    *arguments: object,
    attempt_s: float | None = None,
) -> T:
    """Run work(*arguments) within `seconds`, with retries for up to `retry_s` of them.

    attempt_s: an attempt without an answer ends after this many seconds, so another can follow.
    None: it may take all of the time. Raises the last ServiceError.
    """

    def attempt() -> T:
        left = seconds_left()
        return in_time(left if attempt_s is None else min(attempt_s, left), work, *arguments)

    return in_time(seconds, lambda: RetryPolicy(min(retry_s, seconds_left()))(attempt))


def client_settings(account: Account, connections: int = 1) -> dict[str, Any]:
    """Keyword arguments for every client of the SDK. connections: how many to keep open.

    No retries by the SDK, our own HTTP transport, and no redirects: otherwise, an answer could
    have the credential sent to another host.
    """
    from .http import transport

    return {
        "credential": _credential(account),
        "api_version": API_VERSION,
        "transport": transport(account.url, connections),
        "retry_total": 0,
        "permit_redirects": False,
    }


def client_url(account: Account) -> str:
    """The address for a client of the SDK: with the SAS in it, if a token goes beside that."""
    if account.identity and account.sas:
        return f"{account.url}?{account.sas}"
    if account.identity and account.sas_provider:
        return f"{account.url}?{renewed_sas(account).current()}"
    return account.url


def with_renewed_sas(account: Account, work: Callable[[], T]) -> T:
    """Return work(). If a SAS is refused and its provider can be asked, once more."""
    try:
        return work()
    except AccessDenied as error:
        if error.code != "AuthenticationFailed" or not account.sas_provider:
            raise
        renewed_sas(account).renew()
    return work()


def _credential(
    account: Account,
) -> AzureNamedKeyCredential | AzureSasCredential | TokenCredential:
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential

    if account.key:
        return AzureNamedKeyCredential(account.name, account.key)
    if account.sas and not account.identity:
        return AzureSasCredential(account.sas)
    if account.sas_provider and not account.identity:
        return _renewed(AzureSasCredential, account)
    return StorageTokens(token_credential(account.identity or EntraIdentity()))


def _renewed(base: type[AzureSasCredential], account: Account) -> AzureSasCredential:
    """A credential of the SDK's kind, whose SAS is that of the provider at each request."""
    source = renewed_sas(account)

    class Renewed(base):  # type: ignore[misc,valid-type]
        @property
        def signature(self) -> str:
            return source.current()

    made: AzureSasCredential = Renewed(source.current())
    return made


@contextlib.contextmanager
def translated_errors(doing: str, needs: str) -> Iterator[None]:
    """Translate the SDK's errors to ServiceError. `doing`, `needs`: see `service_error`."""
    try:
        yield
    except AzureError as error:
        raise _translated(error, doing, needs) from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        # Malformed headers; a document that is empty, or not the one that the SDK expects.
        raise _not_the_service(doing, type(error).__name__) from None


def _translated(error: AzureError, doing: str, needs: str) -> ServiceError:
    if isinstance(error, BrokenOff):
        return _unanswered(error, doing)
    status = error.status_code if isinstance(error, HttpResponseError) else None
    if isinstance(error, HttpResponseError) and not (status and 200 <= status < 300):
        if status in _REDIRECTS:
            return _redirected(error, doing)
        said = str(error.message)
        return service_error(
            doing,
            status=status,
            code=code_of(error),
            needs=needs,
            denial=said,
            request_id=_request_id(error),
        )
    # An error with a status of success means that the answer broke off in the middle.
    if isinstance(error, (ServiceRequestError, ServiceResponseError, HttpResponseError)):
        return service_error(doing, status=None, detail=type(error).__name__)
    return service_error(doing, status=400, detail=type(error).__name__)


def _unanswered(error: BrokenOff, doing: str) -> ServiceError:
    if error.excess:
        return _not_the_service(doing, str(error))
    if error.untrusted:
        return untrusted_certificate(doing, str(error), sent=error.sent)
    return service_error(doing, status=None, detail=str(error), sent=error.sent)


def _redirected(error: HttpResponseError, doing: str) -> ServiceError:
    answer: Any = error.response
    target = _host(answer.headers.get("location", "")) if answer is not None else "elsewhere"
    return ServiceError(
        f"could not {doing}: the answer is a redirect (HTTP {error.status_code}) to {target}. It"
        " was not followed, since the credential is for the service alone. Correct the address of"
        " the account; or is there a proxy on the way that asks to sign in?",
        status=error.status_code,
    )


def _not_the_service(doing: str, detail: str) -> ServiceError:
    return ServiceError(
        f"could not {doing}: the answer is not what the service sends ({detail}). Correct the"
        " address of the account; or is there a proxy on the way?"
    )


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    return f"'{host}'" if re.fullmatch(r"[0-9A-Za-z.:-]{1,253}", host) else "elsewhere"


def _request_id(error: HttpResponseError) -> str:
    answer: Any = error.response
    return "" if answer is None else fields.request_id(answer.headers.get("x-ms-request-id") or "")


def code_of(error: HttpResponseError) -> str:
    """The service's error code: sometimes a text, sometimes an enum, sometimes missing."""
    code = getattr(error, "error_code", None)
    text = str(getattr(code, "value", code) or "")
    return text if re.fullmatch("[0-9A-Za-z]{1,64}", text) else ""

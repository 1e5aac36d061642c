"""What an answer from the service means, and the error to raise if it is not a success."""

from __future__ import annotations

from spark_azqueue.errors import (
    AccessDenied,
    Outcome,
    QueueNotFound,
    ServiceError,
    ServiceUnavailable,
)

from .redaction import shown

# For an unknown or foreign receipt, the service answers 404 MessageNotFound, and Azurite 400
# PopReceiptMismatch. A receipt that does not parse gets 400 with one of the value codes. Ours come
# from the service or from a checkpoint, so that, too, means that the receipt is no longer valid.
_DEAD_RECEIPT_CODES = frozenset(
    {"PopReceiptMismatch", "InvalidQueryParameterValue", "InvalidPopReceipt"}
)


_BUSY_STATUSES = frozenset({408, 429, 500, 502, 503, 504})

THROTTLED = frozenset({429, 503})
"""Statuses that ask for fewer requests."""


_LONGEST_CODE = 64

_NOT_ALLOWED = frozenset({"AuthorizationPermissionMismatch", "AuthorizationResourceTypeMismatch"})
"""Codes of 403 for a credential that is valid and may do less than this."""


def classify(status: int | None, code: str = "", *, by_receipt: bool = False) -> Outcome:
    """Return what an answer means. Nothing else decides this.

    status: HTTP status, None if the connection failed. code: `x-ms-error-code`.
    by_receipt: the request named a message by its pop receipt (delete, update).
    """
    if status is None or status in _BUSY_STATUSES:
        return Outcome.RETRY
    if 200 <= status < 300:
        return Outcome.OK
    if status == 404 and code == "MessageNotFound":
        return Outcome.GONE
    if status == 400 and by_receipt and code in _DEAD_RECEIPT_CODES:
        return Outcome.LOST
    return Outcome.FATAL


def service_error(
    doing: str,
    *,
    status: int | None,
    code: str = "",
    detail: str = "",
    needs: str = "",
    by_receipt: bool = False,
    retry_after: float | None = None,
    date: str | None = None,
    sent: bool = True,
    address: str = "",
) -> ServiceError:
    """Make the error for an answer that is not a success.

    doing: "dequeue from queue 'orders'". needs: the role or SAS letter that it takes.
    retry_after: seconds that the service asks to wait. date: the answer's Date header.
    sent: False if no byte of the request was sent. address: where the request was to go.
    """
    code = shown(code, _LONGEST_CODE)
    outcome = classify(status, code, by_receipt=by_receipt)
    said = f"HTTP {status} {code}".strip() if status is not None else "no answer"
    text = f"could not {doing}: {said}" + (f" ({detail})" if detail else "")
    kind: type[ServiceError] = ServiceError
    if status == 404 and code == "QueueNotFound":
        kind = QueueNotFound
        text += ". Create the queue, correct the option 'queue', or set createQueue=true."
    elif status == 409 and code in ("QueueBeingDeleted", "QueueDisabled"):
        kind = QueueNotFound
        text += ". Wait until the deletion has finished (a minute or so), then start again."
    elif status == 401 or (status == 403 and code not in _NOT_ALLOWED):
        kind = AccessDenied
        text += (
            ". The service does not accept this credential: check the key, the SAS's expiry, the"
            " role assignment, the account's firewall, and this machine's clock."
        )
    elif status == 403:
        kind = AccessDenied
        text += f". The credential is good, but this needs {needs or 'another role'}: add that."
    elif outcome is Outcome.RETRY:
        kind = ServiceUnavailable
        if status is None and address:
            text += f". Check that this machine reaches {address}: name, DNS, firewall, proxy."
    return kind(
        text,
        status=status,
        code=code,
        outcome=outcome,
        retry_after=retry_after,
        date=date,
        sent=sent,
    )


def unreadable_answer(doing: str, detail: str) -> ServiceUnavailable:
    """Make the error for an answer that does not follow the protocol.

    It can be retried. As with no answer, the request may have taken effect.
    """
    return ServiceUnavailable(
        f"could not {doing}: the answer cannot be read ({detail})", outcome=Outcome.RETRY
    )


def untrusted_certificate(doing: str, reason: str, *, sent: bool = True) -> ServiceError:
    """The error for a server whose certificate is not trusted. No retry helps.

    doing: as for `service_error`. sent: see `ServiceError`.
    """
    return ServiceError(
        f"could not {doing}: the service's certificate is not trusted ({reason}). If your own"
        " authority issued it, name the authority's file in the environment variable"
        " REQUESTS_CA_BUNDLE",
        outcome=Outcome.FATAL,
        sent=sent,
    )

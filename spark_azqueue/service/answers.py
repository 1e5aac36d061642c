"""What an answer of the service means, and the error to raise for one that is no success."""

from __future__ import annotations

from spark_azqueue.errors import (
    AccessDenied,
    Outcome,
    QueueNotFound,
    ServiceError,
    ServiceUnavailable,
)

from .redaction import shown

# An unknown or foreign receipt is 404 MessageNotFound on the service and 400 PopReceiptMismatch
# on Azurite. A receipt that does not even parse is 400 with one of the value codes; as ours came
# from the service or from a checkpoint, that too only says that it is no receipt of today.
_DEAD_RECEIPT_CODES = frozenset(
    {"PopReceiptMismatch", "InvalidQueryParameterValue", "InvalidPopReceipt"}
)


_BUSY_STATUSES = frozenset({408, 429, 500, 502, 503, 504})


_LONGEST_CODE = 64


def classify(status: int | None, code: str = "", *, by_receipt: bool = False) -> Outcome:
    """Say what an answer means. The only place that does.

    status: HTTP status, None where the connection failed. code: `x-ms-error-code`.
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
) -> ServiceError:
    """Make the error for an answer that is not a success.

    doing: "dequeue from queue 'orders'". needs: the role or SAS letter for it.
    sent: False if not a byte of the request was sent.
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
    elif status == 401 or (status == 403 and code != "AuthorizationPermissionMismatch"):
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
    """Make the error for an answer that is not what the protocol says.

    It is worth another try: as with no answer, the request may have taken effect.
    """
    return ServiceUnavailable(
        f"could not {doing}: the answer cannot be read ({detail})", outcome=Outcome.RETRY
    )

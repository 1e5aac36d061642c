"""Interprets the service's answers, and makes the errors for answers that are not a success."""

from __future__ import annotations

from spark_azqueue.errors import (
    AccessDenied,
    Outcome,
    QueueNotFound,
    ServiceError,
    ServiceUnavailable,
)
from spark_azqueue.errors.conditions import Condition

from .redaction import shown

# If a receipt is unknown, or belongs to another message, the service answers 404 MessageNotFound,
# and Azurite answers 400 PopReceiptMismatch. If a receipt does not parse, the answer is 400
# InvalidQueryParameterValue, which names the parameter. The connector's receipts come from the
# service or from a checkpoint, so this answer also means that the receipt is no longer valid.
_DEAD_RECEIPT_CODES = frozenset({"PopReceiptMismatch", "InvalidPopReceipt"})
_BAD_VALUE = "InvalidQueryParameterValue"
_RECEIPT = "popreceipt"


_BUSY_STATUSES = frozenset({408, 429, 500, 502, 503, 504})

THROTTLED = frozenset({429, 503})
"""HTTP statuses with which the service throttles a request."""

# Permissions that requests to a queue need, as text for error messages.
PROCESSOR = "the SAS letter 'p' or the role 'Storage Queue Data Message Processor'"
CONTRIBUTOR = "the SAS letter 'u' or the role 'Storage Queue Data Contributor'"
SENDER = "the SAS letter 'a' or the role 'Storage Queue Data Message Sender'"
READER = "the SAS letter 'r' or the role 'Storage Queue Data Reader'"
CREATOR = (
    "a key, an account SAS (srt with 'c') with the letter 'c', or the role 'Storage Queue Data"
    " Contributor'; a SAS for one queue can never create it"
)
CLEARER = (
    "a key, an account SAS (srt with 'o') with the letter 'd', or the role 'Storage Queue Data"
    " Contributor'. A SAS for one queue can never clear it: `purge --each` deletes one by one"
)
LISTER = (
    "a key, an account SAS for the service (srt with 's') with the letter 'l', or the role 'Storage"
    " Queue Data Reader' for the account; or name each queue"
)

_LONGEST_CODE = 64

UNUSABLE_PROOF = (400, "InvalidAuthenticationInfo")
"""HTTP status and error code of the answer to a token that the service cannot parse."""


_WAIT = "Wait until the deletion has finished (a minute or so), then start again."
_REFUSALS: dict[tuple[int | None, str], tuple[Condition, str]] = {
    # By status and code.
    (404, "QueueNotFound"): (
        Condition.QUEUE_NOT_FOUND,
        "Create the queue, or correct its name; a query or write with createQueue=true creates it.",
    ),
    (409, "QueueBeingDeleted"): (Condition.QUEUE_BEING_DELETED, _WAIT),
    (409, "QueueDisabled"): (Condition.QUEUE_BEING_DELETED, _WAIT),
    UNUSABLE_PROOF: (
        Condition.UNREADABLE_TOKEN,
        "The service cannot read the token, or what is sent in its place: check what gives it"
        " ('credential', 'credentialProvider'), and the account's address.",
    ),
    (403, "AuthorizationPermissionMismatch"): (
        Condition.PERMISSION_MISSING,
        "The credential is good, but this needs {needs}: add that.",
    ),
    (403, "AuthorizationResourceTypeMismatch"): (
        Condition.SAS_RESTRICTED,
        "The SAS is not for this type of resource: make an account SAS with srt=sco (service,"
        " container, object). This needs {needs}.",
    ),
    (403, "AuthorizationServiceMismatch"): (
        Condition.SAS_RESTRICTED,
        "The SAS is for other services: make an account SAS whose 'ss' has q for queues, and b for"
        " blobs.",
    ),
    (403, "AuthorizationFailure"): (
        Condition.FIREWALL,
        "The account's firewall does not let this machine in, or the SAS can never do this,"
        " whatever its letters: it needs {needs}.",
    ),
    (403, "AuthorizationProtocolMismatch"): (
        Condition.SAS_RESTRICTED,
        "The SAS allows https only (spr): use an address with https.",
    ),
    (403, "AuthorizationSourceIPMismatch"): (
        Condition.SAS_RESTRICTED,
        "The SAS is for other addresses (sip) than this machine's: make one without, or for this"
        " machine.",
    ),
    (403, "KeyBasedAuthenticationNotPermitted"): (
        Condition.KEYS_NOT_PERMITTED,
        "The account takes neither account keys nor SAS made from them: use Microsoft Entra,"
        " 'accountUrl' with 'credential'.",
    ),
    (403, "AccountIsDisabled"): (
        Condition.ACCOUNT_DISABLED,
        "The account is disabled: ask its owner.",
    ),
    (409, "ContainerBeingDeleted"): (
        Condition.SERVICE_ERROR,
        "Wait until the container's deletion has finished (a minute or so), then start again.",
    ),
    (404, "ResourceNotFound"): (
        Condition.SERVICE_ERROR,
        "There is no such resource at this address: check 'accountUrl' or 'blobAccountUrl'"
        " (https://<account>.queue.core.windows.net for queues, .blob. for blobs).",
    ),
}

_WRONG_KEY = (
    Condition.ACCESS_DENIED,
    "the account key is not that of the account, or was replaced. Copy it from the portal"
    " (Access keys).",
)
_WRONG_CLOCK = (Condition.ACCESS_DENIED, "this machine's clock is wrong. Set it.")
_NO_REASON = (
    Condition.ACCESS_DENIED,
    "check the key, the SAS's expiry and its queue, the role assignment, the account's firewall,"
    " and this machine's clock.",
)
_WHY = (
    # (Text in the service's AuthenticationErrorDetail; its meaning for a SAS from the user; its
    # meaning for an account key, with which the connector signs a SAS itself.)
    (
        "in the specified time frame",
        (Condition.SAS_NOT_VALID_NOW, "the SAS has ended, or has not begun yet. Make a new one."),
        _WRONG_CLOCK,
    ),
    (
        "Signature did not match",
        (
            Condition.SAS_MISMATCH,
            "the SAS does not fit. It was made for another queue or account, was not copied whole,"
            " or its key was replaced since. Make one for this queue.",
        ),
        _WRONG_KEY,
    ),
    ("MAC signature", _WRONG_KEY, _WRONG_KEY),
    ("date header too", _WRONG_CLOCK, _WRONG_CLOCK),
)


def classify(
    status: int | None, code: str = "", *, by_receipt: bool = False, parameter: str = ""
) -> Outcome:
    """Return the meaning of an answer. Only this function interprets statuses and error codes.

    status: HTTP status, or None if the connection failed. code: the answer's `x-ms-error-code`.
    by_receipt: True if the request named a message by its pop receipt (delete, update). parameter:
    the query parameter that the answer names as invalid, or "" if there is none.
    """
    if status is None or status in _BUSY_STATUSES:
        return Outcome.RETRY
    if 200 <= status < 300:
        return Outcome.OK
    if status == 404 and code == "MessageNotFound":
        return Outcome.GONE
    if status == 400 and by_receipt:
        blames_receipt = code == _BAD_VALUE and parameter.lower() == _RECEIPT
        if code in _DEAD_RECEIPT_CODES or blames_receipt:
            return Outcome.LOST
    return Outcome.FATAL


def service_error(
    doing: str,
    *,
    status: int | None,
    code: str = "",
    detail: str = "",
    needs: str = "",
    denial: str = "",
    by_key: bool = False,
    by_receipt: bool = False,
    parameter: str = "",
    retry_after: float | None = None,
    date: str | None = None,
    sent: bool = True,
    address: str = "",
    request_id: str = "",
) -> ServiceError:
    """Make the error for an answer that is not a success.

    doing: the failed action as text, such as "dequeue from queue 'orders'". needs: the role or SAS
    permission that the action needs. denial: the service's reason for refusing a credential. The
    error does not show this text, because it may contain signatures. by_key: True if the credential
    is an account key. by_receipt, parameter: see `classify`. retry_after: number of seconds that
    the service asks the client to wait. date: the answer's Date header. sent: False if no byte of
    the request was sent. address: host and port to which the request was sent. request_id: see
    `ServiceError`.
    """
    code = shown(code, _LONGEST_CODE)
    outcome = classify(status, code, by_receipt=by_receipt, parameter=parameter)
    said = f"HTTP {status} {code}".strip() if status is not None else "no answer"
    text = f"could not {doing}: {said}" + (f" ({detail})" if detail else "")
    condition, remedy = _meaning(status, code, denial, by_key=by_key)
    if remedy:
        text += f". {remedy.format(needs=needs or 'another role')}"
    elif status is None and address:
        text += f". Check that this machine reaches {address}: name, DNS, firewall, proxy."
    if request_id and sent:
        whose = "x-ms-request-id" if status is not None else "x-ms-client-request-id"
        text += f" ({whose} {request_id})"
    kind: type[ServiceError] = ServiceError
    if condition in (Condition.QUEUE_NOT_FOUND, Condition.QUEUE_BEING_DELETED):
        kind = QueueNotFound
    elif status in (401, 403) or (status, code) == UNUSABLE_PROOF:
        kind = AccessDenied
    elif outcome is Outcome.RETRY:
        kind = ServiceUnavailable
    return kind(
        text,
        condition=condition,
        status=status,
        code=code,
        outcome=outcome,
        retry_after=retry_after,
        date=date,
        sent=sent,
        request_id=request_id,
    )


def _meaning(status: int | None, code: str, denial: str, *, by_key: bool) -> tuple[Condition, str]:
    """Return the error condition of a refused request, and the remedy ("" if unknown)."""
    if (status, code) in _REFUSALS:
        return _REFUSALS[status, code]
    if status in (401, 403):
        found = (of_key if by_key else of_sas for part, of_sas, of_key in _WHY if part in denial)
        condition, why = next(found, _NO_REASON)
        return condition, f"The service does not accept this credential: {why}"
    if status in (500, *THROTTLED):
        return Condition.SERVICE_BUSY, ""
    return Condition.SERVICE_ERROR if status else Condition.SERVICE_UNAVAILABLE, ""


def unreadable_answer(doing: str, detail: str) -> ServiceUnavailable:
    """Make the error for an answer that does not follow the protocol.

    The request can be retried, although it may have taken effect.
    """
    return ServiceUnavailable(
        f"could not {doing}: the answer cannot be read ({detail})",
        condition=Condition.SERVICE_ERROR,
        outcome=Outcome.RETRY,
    )


def not_the_service(doing: str, detail: str) -> ServiceError:
    """Make the error for a success answer that did not come from Azure Storage.

    A retry does not help.
    """
    return ServiceError(
        f"could not {doing}: the answer is not what the service sends ({detail}). Correct the"
        " address of the account; or is there a proxy on the way?"
    )


def untrusted_certificate(doing: str, reason: str, *, sent: bool = True) -> ServiceError:
    """Make the error for a server whose certificate is not trusted. A retry does not help.

    doing: as for `service_error`. sent: see `ServiceError`.
    """
    return ServiceError(
        f"could not {doing}: the service's certificate is not trusted ({reason}). If your own"
        " authority issued it, name the authority's file in the environment variable"
        " REQUESTS_CA_BUNDLE",
        outcome=Outcome.FATAL,
        sent=sent,
    )

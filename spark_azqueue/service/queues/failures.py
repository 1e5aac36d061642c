"""What an answer about a queue means if it is not a success, and the error to raise.

Time is an argument. What the errors say is in `service/answers.py`.
"""

from __future__ import annotations

import re
from typing import Any

from spark_azqueue.errors import ServiceError, ServiceUnavailable
from spark_azqueue.service import fields

from ..account import Account
from ..answers import UNUSABLE_PROOF, service_error, unreadable_answer, untrusted_certificate
from ..incoming import Answer, NoAnswer
from ..redaction import shown
from .calls import Call


def failure(
    call: Call[Any], account: Account, answer: Answer | NoAnswer, now: float
) -> ServiceError:
    """Make the error for an attempt that was refused or not answered.

    now: seconds since 1970, to read a Retry-After that is a date.
    """
    what = _doing(call, account)
    if isinstance(answer, Answer):
        headers = answer.headers
        return service_error(
            what,
            status=answer.status,
            code=_code(answer),
            needs=call.needs,
            denial=_denial(answer),
            by_key=account.key is not None and account.sas is None,
            by_receipt=call.by_receipt,
            parameter=_parameter(answer),
            retry_after=fields.pause_s(headers.get("retry-after", ""), now),
            date=headers.get("date"),
        )
    reason = shown(answer.reason)
    if answer.too_large:
        return ServiceError(f"could not {what}: {reason}; is there a proxy on the way?")
    if answer.untrusted:
        return untrusted_certificate(what, reason, sent=answer.sent)
    return service_error(
        what, status=None, detail=reason, sent=answer.sent, address=account.host_and_port
    )


def broken_connection(call: Call[Any], account: Account) -> ServiceError:
    """The error after which libcurl has sent a request again by itself."""
    return service_error(
        _doing(call, account), status=None, detail="the connection broke before the answer came"
    )


def unreadable(call: Call[Any], account: Account, error: Exception) -> ServiceUnavailable:
    """Make the error for an answer that the call could not read because of this error."""
    return unreadable_answer(_doing(call, account), f"{type(error).__name__}: {shown(error)}")


def refuses_credential(answer: Answer) -> bool:
    """True if the service rejected the credential itself, rather than its permissions."""
    if answer.status == 401:
        return True
    return answer.status in (400, 403) and (answer.status, _code(answer)) in _REFUSED_PROOFS


def _doing(call: Call[Any], account: Account) -> str:
    return f"{call.doing} queue '{shown(call.queue.name, 64)}' of account '{account.name}'"


def _code(answer: Answer) -> str:
    """The service's error code, or ""."""
    if code := answer.headers.get("x-ms-error-code", ""):
        return code
    found = _CODE.search(answer.body)
    return found[1].decode() if found else ""


def _parameter(answer: Answer) -> str:
    """The name of the query parameter that the service refuses, or ""."""
    found = _PARAMETER.search(answer.body)
    return found[1].decode() if found else ""


def _denial(answer: Answer) -> str:
    """What the service says about a credential that it refuses, or "". May hold signatures."""
    found = _DENIAL.search(answer.body)
    return found[1].decode(errors="replace") if found else ""


_REFUSED_PROOFS = (UNUSABLE_PROOF, (403, "AuthenticationFailed"))
_PARAMETER = re.compile(rb"<QueryParameterName>([A-Za-z]{1,64})</QueryParameterName>")
_CODE = re.compile(rb"<Code>([A-Za-z0-9]{1,64})</Code>")
_DENIAL = re.compile(rb"<AuthenticationErrorDetail>([^<]*)")

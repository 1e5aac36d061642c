"""Signs and sends concurrent calls to the queues or containers of one account.

Each call is retried as its policy allows (`service/retry.py`), while other calls continue. If the
limits of `concurrency.py` apply to a call, every answer is reported to these limits, including 503
and 429.
"""

from __future__ import annotations

import heapq
import itertools
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from types import TracebackType
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from spark_azqueue.errors import ServiceError, ServiceUnavailable
from spark_azqueue.metrics.latency import NO_ANSWER

from .. import fields
from ..account import API_VERSION, Account
from ..answers import (
    THROTTLED,
    UNUSABLE_PROOF,
    service_error,
    unreadable_answer,
    untrusted_certificate,
)
from ..incoming import Answer, NoAnswer
from ..redaction import shown
from ..retry import Attempts, RetryPolicy
from .calls import Call, Request, escaped
from .concurrency import Response
from .http import Session, Wire


def failure(
    call: Call[Any], account: Account, answer: Answer | NoAnswer, now: float, request_id: str = ""
) -> ServiceError:
    """Make the error for an attempt that was refused or got no answer.

    now: seconds since 1970, used if Retry-After is a date. request_id: the client's id of the
    request.
    """
    what = _doing(call, account)
    if isinstance(answer, Answer):
        headers = answer.headers
        if answer.status in _REDIRECTS:
            return _redirected(what, answer.status, headers)
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
            request_id=fields.request_id(headers.get("x-ms-request-id", "")),
        )
    reason = shown(answer.reason)
    if answer.too_large:
        return ServiceError(f"could not {what}: {reason}; is there a proxy on the way?")
    if answer.untrusted:
        return untrusted_certificate(what, reason, sent=answer.sent)
    return service_error(
        what,
        status=None,
        detail=reason,
        sent=answer.sent,
        address=account.host_and_port,
        request_id=request_id,
    )


def _redirected(what: str, status: int, headers: Mapping[str, str]) -> ServiceError:
    return ServiceError(
        f"could not {what}: the answer is a redirect (HTTP {status}) to"
        f" {_host(headers.get('location', ''))}. It was not followed, since the credential is for"
        " the service alone. Correct the address of the account; or is there a proxy on the way"
        " that asks to sign in?",
        status=status,
    )


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    return f"'{host}'" if _HOST.fullmatch(host) else "elsewhere"


def broken_connection(call: Call[Any], account: Account) -> ServiceError:
    """Make the error for a request that libcurl has sent twice."""
    return service_error(
        _doing(call, account), status=None, detail="the connection broke before the answer came"
    )


def unreadable(call: Call[Any], account: Account, error: Exception) -> ServiceUnavailable:
    """Make the error for an answer that the call could not parse. error: the parser's error."""
    return unreadable_answer(_doing(call, account), f"{type(error).__name__}: {shown(error)}")


def refuses_credential(answer: Answer) -> bool:
    """Return True if the service rejected the credential itself, not only because of missing
    permissions."""
    if answer.status == 401:
        return True
    return answer.status in (400, 403) and (answer.status, _code(answer)) in _REFUSED_PROOFS


def _doing(call: Call[Any], account: Account) -> str:
    if not call.of:
        return f"{call.doing} account '{account.name}'"
    return f"{call.doing} {call.of} '{shown(call.queue.name, 64)}' of account '{account.name}'"


def _code(answer: Answer) -> str:
    """Return the service's error code, or ""."""
    if code := answer.headers.get("x-ms-error-code", ""):
        return code
    found = _CODE.search(answer.body)
    return found[1].decode() if found else ""


def _parameter(answer: Answer) -> str:
    """Return the name of the query parameter that the service refuses, or ""."""
    found = _PARAMETER.search(answer.body)
    return found[1].decode() if found else ""


def _denial(answer: Answer) -> str:
    """Return the service's reason for refusing a credential, or "". This text may contain
    signatures.
    """
    found = _DENIAL.search(answer.body)
    return found[1].decode(errors="replace") if found else ""


_REDIRECTS = frozenset({300, 301, 302, 303, 307, 308})
_HOST = re.compile(r"[0-9A-Za-z.:-]{1,253}")
_REFUSED_PROOFS = (UNUSABLE_PROOF, (403, "AuthenticationFailed"))
_PARAMETER = re.compile(rb"<QueryParameterName>([A-Za-z]{1,64})</QueryParameterName>")
_CODE = re.compile(rb"<Code>([A-Za-z0-9]{1,64})</Code>")
_DENIAL = re.compile(rb"<AuthenticationErrorDetail>([^<]*)")


TIMED = frozenset({"dequeue", "put", "delete", "update"})
"""Kinds of requests whose durations are recorded: the requests that put, dequeue, update or delete
messages."""

T = TypeVar("T")
Tag = TypeVar("Tag")


@dataclass(slots=True, eq=False)
class _Try(Generic[Tag]):
    """A call in flight. `attempts`: set at the first failure.

    `request_id`: request id of the newest attempt.
    """

    tag: Tag
    call: Call[Any]
    retry: RetryPolicy | None
    begun_at: float
    within_s: float | None = None
    attempts: Attempts | None = None
    proof_renewed: bool = False
    request_id: str = ""

    def left_s(self, now: float) -> float | None:
        """Return the seconds left for the call, or None if the call has no time limit."""
        return None if self.within_s is None else self.begun_at + self.within_s - now

    def limit_s(self, now: float) -> float | None:
        """Return the maximum duration, in seconds, of an attempt that begins now; None for the
        transport's limit.
        """
        left_s = self.left_s(now)
        attempt_s = self.retry.attempt_s if self.retry else None
        if left_s is None or attempt_s is None:
            return attempt_s if left_s is None else left_s
        return min(left_s, attempt_s)


class InFlight(Generic[Tag, T]):
    """Concurrent calls of one thread. The calls progress only while the thread is in `ended`."""

    def __init__(self, session: Session, wire: Wire[_Try[Tag]]) -> None:
        self._session = session
        self._wire = wire
        self._results: list[tuple[Tag, T | Exception]] = []
        self._paused: list[tuple[float, int, _Try[Tag]]] = []
        self._order = itertools.count()
        self._limits = session.limits
        self._admitted: set[_Try[Tag]] = set()  # number of calls in flight that count in the limits
        self._ask_again_at: float | None = None  # set if the limits did not allow a call

    def __len__(self) -> int:
        """Number of calls that have begun and whose results `ended` has not returned yet."""
        return len(self._wire) + len(self._paused) + len(self._results)

    def begin(
        self,
        tag: Tag,
        call: Call[T],
        retry: RetryPolicy | None = None,
        within_s: float | None = None,
    ) -> None:
        """Begin a call. Never raises. retry: the retry policy, or None for one attempt.

        tag: value that `ended` returns with the result. within_s: seconds after which the call ends
        without an answer. Such a call may or may not have taken effect.
        """
        self._send(_Try(tag, call, retry, time.monotonic(), within_s))

    def try_begin(self, tag: Tag, call: Call[T], retry: RetryPolicy | None = None) -> bool:
        """Begin a call if the limits of its queue allow one more. Never raises.

        Returns False if the limits do not allow a call now. In this case, `ended` returns not later
        than the time at which another try may succeed.
        """
        now = time.monotonic()
        wait_s = self._limits.admit(call.queue, call.turn, now)
        if wait_s:
            again_at = now + wait_s
            if self._ask_again_at is None or again_at < self._ask_again_at:
                self._ask_again_at = again_at
            return False
        attempt = _Try(tag, call, retry, now)
        self._admitted.add(attempt)
        self._send(attempt)
        return True

    def ended(self, timeout_s: float | None = None) -> list[tuple[Tag, T | Exception]]:
        """Return results or errors, each with its tag. Waits for at least one result, at most
        `timeout_s` seconds.

        timeout_s: None for no time limit. Returns [] if no call is in flight and no call waits for
        the limits.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if (again_at := self._ask_again_at) is not None:
            deadline = again_at if deadline is None else min(deadline, again_at)
            self._ask_again_at = None
        while not self._results and (len(self) or again_at is not None):
            now = time.monotonic()
            if deadline is not None and now > deadline:
                break
            wait_s = self._send_due(now)
            if deadline is not None:
                wait_s = min(wait_s, deadline - now)
            if not len(self._wire):
                time.sleep(max(0.0, wait_s))
            for attempt, answer in self._wire.ended(wait_s):
                try:
                    self._answered(attempt, answer)
                except Exception as error:  # noqa: BLE001 (a credential may raise anything)
                    self._end(attempt, error)
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        """Stop waiting for the calls in flight, which may or may not take effect."""
        for attempt in self._admitted:
            self._limits.ended(attempt.call.queue, attempt.call.turn)
        self._admitted.clear()
        self._paused.clear()
        self._wire.abandon()
        self._session.keep(self._wire)

    def __enter__(self) -> InFlight[Tag, T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, attempt: _Try[Tag]) -> None:
        try:
            now = time.time()
            request = attempt.call.request(now)
            attempt.request_id = str(uuid.uuid4())
            headers = {
                "x-ms-version": API_VERSION,
                "x-ms-date": _http_date(int(now)),
                "x-ms-client-request-id": attempt.request_id,
            }
            if request.method in ("POST", "PUT"):
                headers["Content-Type"] = "application/xml"
            headers |= request.headers
            call, method = attempt.call, request.method
            url = _address(self._session.account.url, call, request)
            scope = "" if call.of_account else call.queue.name
            signed = self._session.authority.sign(scope, url, headers)
            limit_s = attempt.limit_s(time.monotonic())
            self._wire.begin(attempt, method, signed, headers, request.body, limit_s, request.most)
            self._session.note_request(attempt.call.kind)
        except Exception as error:  # noqa: BLE001 (a credential may raise anything)
            self._end(attempt, error)

    def _end(self, attempt: _Try[Tag], result: T | Exception) -> None:
        """End a call with this result. No further attempt follows."""
        if attempt in self._admitted:
            self._admitted.remove(attempt)
            self._limits.ended(attempt.call.queue, attempt.call.turn)
        self._results.append((attempt.tag, result))

    def _send_due(self, now: float) -> float:
        """Retry the calls whose pause has ended. Returns the seconds until the next retry."""
        while self._paused and self._paused[0][0] <= now:
            attempt = heapq.heappop(self._paused)[2]
            if attempt in self._admitted:
                self._limits.sent_again(attempt.call.queue)
            self._send(attempt)
        return self._paused[0][0] - now if self._paused else 1.0

    def _answered(self, attempt: _Try[Tag], answer: Answer | NoAnswer) -> None:
        call = attempt.call
        self._note_took(call, answer)
        if isinstance(answer, Answer) and answer.status in THROTTLED:
            self._session.note_throttled()
        if attempt in self._admitted:
            self._tell_limits(call, answer)
        if answer.repeated:
            self._session.note_request(call.kind)
        if answer.repeated and attempt.retry:
            attempt.retry.repeated(broken_connection(call, self._session.account))
        if isinstance(answer, Answer):
            if 200 <= answer.status < 300:
                self._read(attempt, lambda: call.result(answer))
                return
            if refuses_credential(answer) and not attempt.proof_renewed:
                attempt.proof_renewed = True
                if self._session.authority.refresh():
                    self._send(attempt)
                    return
        error = failure(call, self._session.account, answer, time.time(), attempt.request_id)
        in_doubt = attempt.attempts is not None and attempt.attempts.in_doubt
        error.unanswered = answer.repeated or in_doubt
        if call.by_receipt and error.outcome.refused:
            self._read(attempt, lambda: call.refused(error))
        else:
            self._failed(attempt, error)

    def _note_took(self, call: Call[Any], answer: Answer | NoAnswer) -> None:
        if call.kind not in TIMED:
            return
        if isinstance(answer, Answer):
            error = "" if answer.status < 400 else str(answer.status)
            self._session.note_took(call.kind, answer.took_s, error)
        elif answer.sent:
            self._session.note_took(call.kind, answer.took_s, NO_ANSWER)

    def _tell_limits(self, call: Call[Any], answer: Answer | NoAnswer) -> None:
        now = time.monotonic()
        if isinstance(answer, NoAnswer):
            response, sent_at = Response.NOTHING, now
        else:
            sent_at = answer.sent_at
            response = Response.DONE if answer.status < 500 else Response.NOTHING
            if answer.status in THROTTLED:
                response = Response.BUSY
        self._limits.answered(call.queue, call.turn, response, now, sent_at)

    def _read(self, attempt: _Try[Tag], read: Callable[[], T]) -> None:
        """Parse the answer to a call. If parsing fails, only this call fails."""
        try:
            result = read()
        except ServiceError as error:
            self._failed(attempt, error)
        except Exception as error:  # noqa: BLE001 (unforeseen; other calls continue)
            self._failed(attempt, unreadable(attempt.call, self._session.account, error))
        else:
            self._end(attempt, result)

    def _failed(self, attempt: _Try[Tag], error: ServiceError) -> None:
        if attempt.retry:
            attempt.attempts = attempt.attempts or attempt.retry.attempts(attempt.begun_at)
            pause_s = attempt.attempts.failed(error)
            now = time.monotonic()
            left_s = attempt.left_s(now)
            if pause_s is not None and (left_s is None or pause_s < left_s):
                due = now + pause_s
                heapq.heappush(self._paused, (due, next(self._order), attempt))
                return
        self._end(attempt, error)


def carried_out(
    flight: InFlight[None, T],
    call: Call[T],
    retry: RetryPolicy | None = None,
    within_s: float | None = None,
) -> T:
    """Make one call, and wait for it. Raises ServiceError.

    flight: a new object that is used only for this call. Other parameters: see `begin`.
    """
    with flight:
        flight.begin(None, call, retry, within_s)
        ((_, result),) = flight.ended()
    if isinstance(result, Exception):
        raise result
    return result


def _address(account_url: str, call: Call[Any], request: Request) -> str:
    """Return the request's URL. Raises ServiceError if a name such as ".." would change the
    address.
    """
    segments = (call.queue.name, *request.path) if call.of else request.path
    for segment in segments:
        # Escaping does not help: escaped "." and ".." have the same meaning.
        if segment in (".", "..") or not (call.hollow or segment.strip(".")):
            raise ServiceError(
                f"could not {call.doing} {call.of} '{shown(call.queue.name, 64)}':"
                f" {shown(repr(segment), 64)} would lead to another address; nothing was sent"
            )
    path = "/".join(map(escaped, segments))
    return f"{account_url}/{path}?{request.query}"


_date_cache = (0, "")


def _http_date(now: int) -> str:
    global _date_cache
    second, text = _date_cache
    if second != now:
        text = formatdate(now, usegmt=True)
        _date_cache = (now, text)
    return text

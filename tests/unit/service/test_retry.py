"""How often and how long a request is tried again."""

from types import SimpleNamespace

import pytest
import tenacity

from spark_azqueue.errors import AccessDenied, Outcome, ServiceError, ServiceUnavailable
from spark_azqueue.service import retry
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.service.workers import Workers


@pytest.fixture
def slept(monkeypatch):
    """Time without waiting: sleeps are noted, and move the clock that tenacity reads."""
    pauses = []
    time = SimpleNamespace(sleep=pauses.append, monotonic=lambda: sum(pauses))
    monkeypatch.setattr(retry, "time", time)
    monkeypatch.setattr(tenacity, "time", time)
    return pauses


def busy(retry_after=None):
    return ServiceUnavailable("busy", status=503, outcome=Outcome.RETRY, retry_after=retry_after)


class Fails:
    """Work that fails so often, and then succeeds."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.calls = []

    def __call__(self, *arguments):
        self.calls.append(arguments)
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.mark.parametrize(
    "error",
    [
        AccessDenied("no", status=403),
        ServiceError("no", status=404, outcome=Outcome.GONE),
        ServiceError("no", status=400, outcome=Outcome.LOST),
        ValueError("a bug"),
        KeyboardInterrupt(),
        SystemExit(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_no_retry_helps_is_raised_at_once(slept, error):
    work = Fails(error)

    with pytest.raises(type(error)) as caught:
        RetryPolicy(30.0)(work)

    assert caught.value is error
    assert len(work.calls) == 1


def test_a_call_is_in_doubt_from_the_first_attempt_that_may_have_taken_effect(slept):
    attempts = RetryPolicy(30.0).attempts(0.0)
    assert not attempts.in_doubt

    attempts.failed(busy())
    assert not attempts.in_doubt

    attempts.failed(ServiceUnavailable("no answer", outcome=Outcome.RETRY))
    assert attempts.in_doubt
    attempts.failed(busy())
    assert attempts.in_doubt


def test_a_policy_keeps_nothing_between_threads(slept):
    policy = RetryPolicy(30.0)
    workers = Workers(8, "retries")

    futures = [workers.submit(policy, Fails(busy(), busy())) for _ in range(100)]

    assert [future.result(10.0) for future in futures] == ["done"] * 100


def test_every_policy_is_bounded_and_a_stop_is_short():
    policies = {
        name: value for name, value in vars(retry).items() if isinstance(value, RetryPolicy)
    }

    assert {"RECEIVE", "SETTLE", "REPLAY", "RENEW", "SEND", "CONTROL"} <= policies.keys()
    # At least 4 s are given to a process that is to end.
    assert retry.LAST_WORDS_S < 4

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


def test_what_succeeds_is_done_once(slept):
    work = Fails()

    assert RetryPolicy(30.0)(work, "a", 1) == "done"
    assert work.calls == [("a", 1)]
    assert slept == []


def test_a_busy_service_is_asked_again(slept):
    work = Fails(busy(), busy(), busy())

    assert RetryPolicy(30.0)(work, "a") == "done"
    assert work.calls == [("a",)] * 4
    assert len(slept) == 3


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


def test_the_last_error_is_raised_as_it_is_when_the_time_is_used_up(slept):
    errors = [busy() for _ in range(10_000)]
    work = Fails(*errors)

    with pytest.raises(ServiceUnavailable) as caught:
        RetryPolicy(30.0)(work)

    assert caught.value is errors[len(work.calls) - 1]
    assert sum(slept) < 30.0


def test_pauses_are_never_long(slept):
    with pytest.raises(ServiceUnavailable):
        RetryPolicy(600.0)(Fails(*[busy() for _ in range(10_000)]))

    assert max(slept) <= 5.0
    assert max(slept[:3]) <= 0.2  # and short at first


def test_what_the_service_asks_for_is_waited_for(slept):
    RetryPolicy(30.0)(Fails(busy(retry_after=2.0), busy(retry_after=3.0)))

    assert [pause >= asked for pause, asked in zip(slept, [2.0, 3.0], strict=True)] == [True, True]


def test_what_the_service_asks_for_is_bounded(slept):
    RetryPolicy(30.0)(Fails(busy(retry_after=3600.0)))

    assert slept == [5.0]


def test_a_pause_is_anything_between_nothing_and_a_bound_that_grows(slept, monkeypatch):
    bounds = []

    def longest(least, most):
        bounds.append((least, most))
        return most

    monkeypatch.setattr(retry, "_chance", SimpleNamespace(uniform=longest))

    RetryPolicy(600.0)(Fails(*[busy() for _ in range(9)]))

    assert bounds == [(0.0, min(0.05 * 2**n, 5.0)) for n in range(9)]
    assert slept == [most for _, most in bounds]


def test_the_time_of_a_call_counts_from_when_it_began(slept):
    now = sum(slept)

    assert RetryPolicy(30.0).attempts(now - 29.0).failed(busy()) is not None
    assert RetryPolicy(30.0).attempts(now - 30.0).failed(busy()) is None


def test_a_call_is_in_doubt_from_the_first_attempt_that_may_have_taken_effect(slept):
    attempts = RetryPolicy(30.0).attempts(0.0)
    assert not attempts.in_doubt

    attempts.failed(busy())
    assert not attempts.in_doubt

    attempts.failed(ServiceUnavailable("no answer", outcome=Outcome.RETRY))
    assert attempts.in_doubt
    attempts.failed(busy())
    assert attempts.in_doubt


def test_no_attempt_begins_after_the_time(slept):
    work = Fails(busy(retry_after=5.0), busy(retry_after=5.0))

    with pytest.raises(ServiceUnavailable):
        RetryPolicy(7.0)(work)

    assert slept == [5.0]
    assert len(work.calls) == 2


def test_a_policy_can_be_used_again_and_within_itself(slept):
    policy = RetryPolicy(30.0)

    def outer():
        return policy(Fails(busy()))

    assert policy(outer) == "done"
    assert policy(Fails(busy())) == "done"


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

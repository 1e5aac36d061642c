"""What the fake service itself does wrong is answered, logged, and seen by the test."""

import logging

import pytest
from fake_calls import caller, refusal
from urllib3 import PoolManager

from spark_azqueue.testing import FakeQueueService, ServiceError, rest

INTERNAL_ERROR = (500, "InternalError")


@pytest.fixture
def broken(monkeypatch):
    """Peeking fails as only a mistake in the fake can make it."""

    def fail(job):
        raise ZeroDivisionError("a mistake of the fake")

    monkeypatch.setitem(rest._OPERATIONS, "peek", fail)


@pytest.mark.usefixtures("broken")
def test_a_mistake_is_answered_and_logged(call, service, caplog):
    with caplog.at_level(logging.ERROR):
        reply = call("GET", "/orders/messages?peekonly=true")

    assert refusal(reply) == INTERNAL_ERROR
    assert service.log[-1] == ("peek", "orders", "", 500)
    assert service.statuses == {("peek", 500): 1}
    assert [type(problem) for problem in service.failures] == [ZeroDivisionError]
    assert "a mistake of the fake" in caplog.text
    assert call("GET", "/orders/messages").status == 200  # the next one is served
    service.reset_counters()
    assert service.failures == []


@pytest.mark.usefixtures("broken")
def test_a_test_that_did_not_look_fails_all_the_same():
    with (
        pytest.raises(RuntimeError, match="failed at 1 requests") as caught,
        FakeQueueService() as service,
        PoolManager(retries=False) as pool,
    ):
        caller(service, pool)("GET", "/orders/messages?peekonly=true")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.usefixtures("broken")
def test_the_failure_of_the_test_itself_goes_before():
    def a_test():
        with FakeQueueService() as service, PoolManager(retries=False) as pool:
            caller(service, pool)("GET", "/orders/messages?peekonly=true")
            raise KeyError

    with pytest.raises(KeyError):
        a_test()


@pytest.mark.parametrize("value", ["\u65e5\u672c", "a\r\nx: y", "\x00"])
def test_metadata_that_no_header_can_hold_is_refused(service, value):
    with pytest.raises(ServiceError, match="InvalidMetadata"):
        service.set_metadata("orders", {"note": value})


def test_refusals_are_no_mistakes(call, service):
    for path in ("/nowhere/messages", "/orders/messages?numofmessages=x", "/NO/messages"):
        assert call("GET", path).status in (400, 404)
    assert service.failures == []

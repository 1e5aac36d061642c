"""Calls under way when libcurl fails, or time runs out: each ends with its tag, and none raises."""

import pycurl
import pytest
from refs import ORDERS
from senders import client_of

from spark_azqueue.errors import Outcome, ServiceUnavailable
from spark_azqueue.service.queues.calls import Dequeue, Put
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.service.wire import http as session_module
from spark_azqueue.service.wire import http as wire
from spark_azqueue.testing import Fault

FILES = pycurl.error(7, "Couldn't open socket: too many open files")


class Fails:
    """In place of something that works: fails so often before it does."""

    def __init__(self, works, times, error=FILES):
        self.works = works
        self.times = times
        self.error = error

    def __call__(self, *arguments, **named):
        if self.times:
            self.times -= 1
            raise self.error
        return self.works(*arguments, **named)


class Multi:
    """A libcurl handle for many requests, one of whose methods fails so often."""

    def __init__(self, method, fails):
        self._multi = pycurl.CurlMulti()
        fails.works = getattr(self._multi, method)
        setattr(self, method, fails)

    def __getattr__(self, name):
        return getattr(self._multi, name)


def everything(flight):
    results = {}
    while len(flight):
        results.update(flight.ended())
    return results


@pytest.mark.parametrize("error", [FILES, OSError(24, "too many open files"), MemoryError()])
@pytest.mark.parametrize("handle", ["Curl", "CurlMulti"])
def test_a_handle_that_cannot_be_made_is_tried_again(fake, client, monkeypatch, handle, error):
    monkeypatch.setattr(pycurl, handle, Fails(getattr(pycurl, handle), 1, error))

    with_retry = client.in_flight()
    with_retry.begin("a", Put(ORDERS, "a"), RetryPolicy(30.0))
    with_retry.begin("b", Put(ORDERS, "b"), RetryPolicy(30.0))
    results = everything(with_retry)
    with_retry.close()

    assert results == {"a": None, "b": None}
    assert sorted(m.text for m in fake.messages("orders")) == ["a", "b"]


@pytest.mark.parametrize("handle", ["Curl", "CurlMulti"])
def test_a_handle_that_can_never_be_made_is_an_error_with_its_tag(client, monkeypatch, handle):
    monkeypatch.setattr(pycurl, handle, Fails(None, -1))

    flight = client.in_flight()
    flight.begin("a", Put(ORDERS, "a"), RetryPolicy(0.2))
    assert len(flight) == 1
    ((tag, error),) = flight.ended()
    flight.close()

    assert tag == "a"
    assert isinstance(error, ServiceUnavailable)
    assert error.outcome is Outcome.RETRY
    assert "too many open files" in str(error)


@pytest.mark.parametrize("method", ["add_handle", "perform", "info_read", "remove_handle"])
def test_where_libcurl_fails_altogether_all_are_sent_anew(fake, client, monkeypatch, method):
    fails, made = Fails(None, 1), pycurl.CurlMulti
    handles = iter([lambda: Multi(method, fails)])
    monkeypatch.setattr(pycurl, "CurlMulti", lambda: next(handles, made)())

    flight = client.in_flight()
    for number in range(20):
        flight.begin(number, Put(ORDERS, str(number)), RetryPolicy(30.0))
    results = everything(flight)
    flight.close()

    assert fails.times == 0
    assert results == dict.fromkeys(range(20))
    assert {m.text for m in fake.messages("orders")} == set(map(str, range(20)))


def test_an_error_while_a_proof_is_renewed_is_the_result_of_its_call_alone(service, monkeypatch):
    # Given a credential that fails when it is asked for a new proof
    class Broken:
        def __init__(self, authority):
            self.sign = authority.sign

        def refresh(self):
            raise RuntimeError("the vault is closed")

    authority_for = session_module.authority_for
    monkeypatch.setattr(
        session_module, "authority_for", lambda account, *_: Broken(authority_for(account))
    )
    client = client_of(service.connection_string)
    service.faults.add(Fault("dequeue", "unauthorized", times=1))

    flight = client.in_flight()
    flight.begin("refused", Dequeue(ORDERS, 1, 60))
    flight.begin("good", Put(ORDERS, "a"))
    results = everything(flight)
    flight.close()
    client.close()

    assert results["good"] is None
    assert isinstance(results["refused"], RuntimeError)


# ── a limit of time ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("limit_s", "milliseconds"),
    [(None, 40_000), (100.0, 40_000), (1.5, 1_500), (0.0, 1), (-3.0, 1)],
)
def test_no_limit_is_none_at_all(monkeypatch, limit_s, milliseconds):
    options = {}

    class Curl:
        def setopt(self, option, value):
            options[option] = value

    monkeypatch.setattr(pycurl, "Curl", Curl)
    made = wire.Wire("http://127.0.0.1")
    made.begin("a", "GET", "http://127.0.0.1", {}, None, limit_s)

    assert options[pycurl.TIMEOUT_MS] == milliseconds
    assert options[pycurl.LOW_SPEED_TIME] == 0


def test_a_long_request_may_not_be_silent_for_long(monkeypatch):
    options = {}

    class Curl:
        def setopt(self, option, value):
            options[option] = value

    monkeypatch.setattr(pycurl, "Curl", Curl)
    made = wire.Wire("http://127.0.0.1")
    made.begin("a", "PUT", "http://127.0.0.1", {}, b"x", 100.0, most=10)

    assert options[pycurl.TIMEOUT_MS] == 100_000
    assert (options[pycurl.LOW_SPEED_LIMIT], options[pycurl.LOW_SPEED_TIME]) == (1, 30)

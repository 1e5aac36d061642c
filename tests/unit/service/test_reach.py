"""At a start, an account that cannot be reached is an error within seconds, with what to check."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from clocks import Clock

from spark_azqueue.errors import Outcome, ServiceUnavailable
from spark_azqueue.service.account import Account
from spark_azqueue.service.queues import reach
from spark_azqueue.service.queues.reach import check_reachable, unreachable
from spark_azqueue.testing import FakeQueueService


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nothing listens, and nothing else will."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that stands still but for the pauses between two tries."""
    made = Clock()
    monkeypatch.setattr(reach, "time", made)
    return made


def account(url: str) -> Account:
    return Account("shop", url, key="a2V5")


def test_a_service_that_is_there_is_reached_without_a_request() -> None:
    with FakeQueueService() as service:
        check_reachable(account(service.url), 1.0)

        assert not service.requests
        assert not service.failures


def test_a_port_on_which_nothing_listens(closed_port: int, clock: Clock) -> None:
    begun_at = clock.now
    with pytest.raises(ServiceUnavailable) as caught:
        check_reachable(account(f"http://127.0.0.1:{closed_port}/shop"), 0.6)

    assert clock.now - begun_at < 0.6
    text = str(caught.value)
    assert text.startswith(
        "[AZQUEUE_SERVICE_UNAVAILABLE] could not reach the account 'shop' at 127.0.0.1, port"
        f" {closed_port}: Connection refused."
    )
    assert "Check host and port in the options" in text
    assert caught.value.outcome is Outcome.RETRY
    assert not caught.value.may_have_taken_effect


@pytest.mark.usefixtures("clock")
def test_a_name_that_does_not_resolve() -> None:
    with pytest.raises(ServiceUnavailable, match="its name does not resolve") as caught:
        check_reachable(account("http://shop.queue.invalid"), 0.6)

    assert "at shop.queue.invalid, port 80" in str(caught.value)
    assert "Check the account's name in the options, DNS" in str(caught.value)


def test_it_is_tried_again_while_there_is_time(closed_port: int, clock: Clock) -> None:
    """A service that is being restarted is no mistake in the options."""
    with pytest.raises(ServiceUnavailable):
        check_reachable(account(f"http://127.0.0.1:{closed_port}/shop"), 1.1)

    assert clock.slept == [0.5, 0.5]


def test_a_service_that_comes_back_meanwhile_is_reached(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeQueueService() as service:
        service.stop()
        monkeypatch.setattr(clock, "sleep", lambda seconds: service.start())

        check_reachable(account(service.url), 1.1)


def test_a_server_that_speaks_no_tls_is_left_to_the_first_request() -> None:
    """Its error says more."""
    with FakeQueueService() as service:
        check_reachable(account(service.url.replace("http:", "https:")), 1.0)


def test_a_proxy_is_named_without_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://me:geheim@proxy.example:8080")
    monkeypatch.delenv("no_proxy", raising=False)

    text = str(unreachable(account("https://shop.queue.core.windows.net"), "Connection refused"))

    assert "port 443 through the proxy http://proxy.example:8080: Connection refused" in text
    assert "geheim" not in text

"""The fake service: when, and from where, a shared access signature is good."""

import datetime

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.storage.queue import QueueClient
from fake_signing import FAILED, ask, of_queue

from spark_azqueue.testing import FakeQueueService


class TestTime:
    @pytest.mark.parametrize(
        ("start", "expiry", "good"),
        [
            (None, 1, True),
            (None, 0, False),
            (None, -1, False),
            (0, 1, True),
            (-10, 1, True),
            (1, 10, False),
        ],
    )
    def test_from_start_to_expiry(self, start, expiry, good):
        at = datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc)

        def seconds(number):
            return None if number is None else at + datetime.timedelta(seconds=number)

        with FakeQueueService(credential_time=at.timestamp) as service:
            service.create_queue("orders")
            sas = of_queue(service, start=seconds(start), expiry=seconds(expiry))
            with QueueClient(service.url, "orders", credential=sas, retry_total=0) as client:
                if good:
                    client.send_message("x")
                else:
                    with pytest.raises(ClientAuthenticationError) as caught:
                        client.send_message("x")
                    assert caught.value.error_code == "AuthenticationFailed"
                    assert "specified time frame" in caught.value.message
            assert service.count("orders") == good

    def test_it_runs_out_while_it_is_used(self):
        times = iter([1_800_000_000.0, 1_800_000_000.0, 1_800_003_600.0])
        with FakeQueueService(credential_time=lambda: next(times)) as service:
            service.create_queue("orders")
            sas = service.sas("orders")
            with QueueClient(service.url, "orders", credential=sas, retry_total=0) as client:
                client.send_message("x")
                with pytest.raises(ClientAuthenticationError):
                    client.send_message("x")

    def test_moving_the_clock_of_the_messages_leaves_credentials_alone(self, call, service):
        sas = of_queue(service)
        service.clock.advance(30 * 86_400)
        assert ask(call, "put", sas) == "good"

    @pytest.mark.parametrize(
        ("text", "good"),
        [
            ("2999-01-01", True),
            ("2999-01-01T00:00Z", True),
            ("2999-01-01T00:00:00Z", True),
            ("2999-01-01T00:00:00.1234567Z", True),
            ("2999-01-01T00:00:00+01:00", True),
            ("2999-01-01T00:00:00", False),
            ("2999-13-01", False),
            ("tomorrow", False),
            ("4102444800", False),
        ],
    )
    def test_forms_of_a_time(self, call, service, text, good):
        assert ask(call, "put", of_queue(service, expiry=text)) == ("good" if good else FAILED)


class TestPlace:
    def test_https_alone(self, call, service):
        refused = (403, "AuthorizationProtocolMismatch")
        assert ask(call, "put", of_queue(service, protocol="https")) == refused
        assert ask(call, "put", of_queue(service, protocol="https,http")) == "good"
        assert ask(call, "put", of_queue(service, protocol="http")) == FAILED

    @pytest.mark.parametrize(
        ("addresses", "expected"),
        [
            ("127.0.0.1", "good"),
            ("127.0.0.0-127.0.0.9", "good"),
            ("10.0.0.1", (403, "AuthorizationSourceIPMismatch")),
            ("127.0.0.2-127.0.0.9", (403, "AuthorizationSourceIPMismatch")),
            ("here", FAILED),
        ],
    )
    def test_addresses(self, call, service, addresses, expected):
        assert ask(call, "put", of_queue(service, ip=addresses)) == expected

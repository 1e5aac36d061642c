"""The fake of blobs: what its faults do. What it does without is in the contract of log stores."""

import http.client
import time

import pytest

from spark_azqueue.testing import FakeClock, Fault
from spark_azqueue.testing.blobs import FakeBlobService


@pytest.fixture
def blobs():
    with FakeBlobService() as service:
        yield service


def ask(blobs, method, path="logs/seg/1", body=None):
    """Status and body of an answer; None if there is none."""
    host, _, account = blobs.url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.request(method, f"/{account}/{path}", body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (http.client.RemoteDisconnected, ConnectionResetError):
        return None
    finally:
        connection.close()


def test_a_blob_is_put_once(blobs):
    assert ask(blobs, "PUT", body=b"first")[0] == 201
    assert ask(blobs, "PUT", body=b"second")[0] == 409
    assert ask(blobs, "GET") == (200, b"first")
    assert blobs.requests == {"put_blob": 2, "get_blob": 1}


@pytest.mark.parametrize(
    ("kind", "answer", "exists"),
    [
        ("busy_503", 503, False),
        ("error_500", 500, False),
        ("reset", None, False),
        ("reply_lost", None, True),
    ],
)
def test_faults_and_their_effects(blobs, kind, answer, exists):
    blobs.faults.add(Fault("put_blob", kind, nth=1))

    got = ask(blobs, "PUT", body=b"x")
    assert (got and got[0]) == answer
    assert blobs.names() == (["logs/seg/1"] if exists else [])
    assert blobs.faults.injected == {kind: 1}


def test_a_late_put_takes_effect_later_and_overwrites_nothing():
    clock = FakeClock(0.0, frozen=True)
    with FakeBlobService(clock=clock.now) as blobs:
        blobs.faults.add(Fault("put_blob", "late", times=2, seconds=5.0))
        assert ask(blobs, "PUT", body=b"late") is None
        assert ask(blobs, "PUT", "logs/seg/2", b"late") is None
        assert ask(blobs, "PUT", body=b"first")[0] == 201
        assert ask(blobs, "GET", "logs/seg/2")[0] == 404

        clock.advance(5.0)
        assert ask(blobs, "GET") == (200, b"first")
        assert ask(blobs, "GET", "logs/seg/2") == (200, b"late")


def test_a_put_alone_can_be_late():
    with pytest.raises(ValueError, match="late cannot happen to get_blob"):
        Fault("get_blob", "late")


def test_its_answers_may_take_longer(blobs):
    blobs.latency_s = 0.1
    began = time.monotonic()
    ask(blobs, "GET")
    assert time.monotonic() - began >= 0.1


def test_what_is_no_operation_on_a_blob_is_refused(blobs):
    assert ask(blobs, "GET", "logs/seg/1?comp=metadata")[0] == 400
    assert ask(blobs, "HEAD")[0] == 400

"""The fake service: faults on demand, and the script that decides on them."""

import pytest
from fake_calls import address, lease, message_xml

from spark_azqueue.testing import Fault, FaultScript


class TestFaults:
    @pytest.mark.parametrize(
        ("kind", "status", "code"),
        [
            ("busy_503", 503, "ServerBusy"),
            ("busy_429", 429, "TooManyRequests"),
            ("error_500", 500, "OperationTimedOut"),
            ("receipt_mismatch", 400, "PopReceiptMismatch"),
            ("not_found", 404, "MessageNotFound"),
            ("forbidden", 403, "AuthorizationPermissionMismatch"),
            ("unauthorized", 401, "InvalidAuthenticationInfo"),
        ],
    )
    def test_refusing_kinds_have_no_effect(self, call, service, kind, status, code):
        service.put("orders", "x")
        [leased] = lease(call)
        service.faults.add(Fault("delete", kind, nth=1, seconds=2.5))
        reply = call("DELETE", address(leased))
        assert (reply.status, reply.headers["x-ms-error-code"]) == (status, code)
        assert reply.headers.get("Retry-After") == ("3" if "busy" in kind else None)
        assert ("WWW-Authenticate" in reply.headers) == (status == 401)
        assert service.count("orders") == 1
        assert call("DELETE", address(leased)).status == 204
        assert service.faults.injected == {kind: 1}

    @pytest.mark.parametrize("kind", ["busy_503", "busy_429"])
    def test_no_retry_after_unless_it_is_asked_for(self, call, service, kind):
        service.faults.add(Fault("delete", kind))
        assert "Retry-After" not in call("DELETE", "/orders/messages/x?popreceipt=AAAA").headers

    def test_a_queue_that_is_being_deleted(self, call, service):
        service.faults.add(Fault("delete_queue", "being_deleted", seconds=30))
        assert call("DELETE", "/orders").status == 204
        for method, path, body in [
            ("GET", "/orders/messages", None),
            ("POST", "/orders/messages", message_xml("x")),
            ("PUT", "/orders", None),
            ("DELETE", "/orders", None),
        ]:
            reply = call(method, path, body)
            assert (reply.status, reply.headers["x-ms-error-code"]) == (409, "QueueBeingDeleted")
        service.clock.advance(30)
        assert call("GET", "/orders/messages").status == 404
        assert call("PUT", "/orders").status == 201
        assert call("GET", "/orders/messages").status == 200

    @pytest.mark.parametrize("kind", ["delivered_twice", "broken_xml"])
    def test_faults_in_messages_wait_for_messages(self, call, service, kind):
        service.faults.add(Fault("dequeue", kind, nth=1))
        assert lease(call) == []
        assert call("GET", "/nowhere/messages").status == 404
        assert service.faults.injected == {}
        service.put("orders", "x")
        call("GET", "/orders/messages")
        assert service.faults.injected == {kind: 1}


class TestFaultScript:
    def hits(self, script, count=12, op="dequeue", queue="orders"):
        """Which of a row of requests are hit, numbered from 1."""
        return [
            n
            for n in range(1, count + 1)
            if script.judge(op, queue, finds_messages=True).fault is not None
        ]

    @pytest.mark.parametrize(
        ("arguments", "hits"),
        [
            ({}, list(range(1, 13))),
            ({"times": 2}, [1, 2]),
            ({"nth": 3}, [3]),
            ({"every": 5}, [5, 10]),
            ({"every": 3, "times": 2}, [3, 6]),
            ({"rate": 1.0, "times": 1}, [1]),
            ({"rate": 0.0}, []),
            ({"queue": "orders", "nth": 1}, [1]),
            ({"queue": "others"}, []),
        ],
    )
    def test_which_requests(self, arguments, hits):
        assert self.hits(FaultScript([Fault("dequeue", "busy_503", **arguments)])) == hits
        assert self.hits(FaultScript([Fault("*", "busy_503", **arguments)])) == hits
        assert self.hits(FaultScript([Fault("delete", "busy_503", **arguments)])) == []

    @pytest.mark.parametrize(
        "arguments",
        [
            {"op": "receive"},
            {"kind": "explode"},
            {"op": "put", "kind": "delivered_twice"},
            {"op": "dequeue", "kind": "receipt_mismatch"},
            {"nth": 1, "rate": 0.5},
            {"nth": 0},
            {"every": 0},
            {"times": 0},
            {"rate": 1.5},
            {"seconds": -1},
        ],
    )
    def test_nonsense_is_refused(self, arguments):
        with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
            Fault(**{"op": "delete", "kind": "reset", **arguments})

"""The fake service: faults on demand, and the script that decides on them."""

import threading
import time
from xml.etree import ElementTree

import pytest
import urllib3
from fake_calls import address, lease, message_xml, page

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

    def test_reset_has_no_effect(self, call, service):
        service.faults.add(Fault("put", "reset", nth=1))
        with pytest.raises(urllib3.exceptions.ProtocolError) as caught:
            call("POST", "/orders/messages", message_xml("x"))
        assert isinstance(caught.value.args[1], ConnectionResetError)
        assert service.count("orders") == 0
        assert service.statuses["put", 0] == 1
        assert call("POST", "/orders/messages", message_xml("x")).status == 201

    def test_reply_lost_takes_effect(self, call, service):
        service.faults.add(Fault("put", "reply_lost", nth=1))
        with pytest.raises(urllib3.exceptions.ProtocolError, match="without response"):
            call("POST", "/orders/messages", message_xml("x"))
        assert service.count("orders") == 1
        assert service.statuses["put", 0] == 1

    def test_reply_of_a_refusal_is_lost_too(self, call, service):
        service.faults.add(Fault("delete", "reply_lost"))
        with pytest.raises(urllib3.exceptions.ProtocolError):
            call("DELETE", "/orders/messages/x?popreceipt=AAAA")

    def test_delivered_twice(self, call, service):
        service.put_many("orders", ["a", "b"])
        service.faults.add(Fault("dequeue", "delivered_twice", nth=1))
        first, second = lease(call, 32), lease(call, 32)
        assert [m["MessageText"] for m in first + second] == ["a", "b", "a", "b"]
        assert [m["DequeueCount"] for m in first + second] == ["1", "1", "2", "2"]
        assert lease(call, 32) == []
        assert [call("DELETE", address(m)).status for m in first] == [404, 404]
        assert [call("DELETE", address(m)).status for m in second] == [204, 204]

    def test_broken_xml(self, call, service):
        service.put_many("orders", ["a", "b"])
        service.faults.add(Fault("dequeue", "broken_xml", nth=1))
        reply = call("GET", "/orders/messages?numofmessages=32")
        assert reply.status == 200
        assert reply.data.count(b"\x01") == 1
        with pytest.raises(ElementTree.ParseError):
            page(reply)
        assert service.visible("orders") == 0
        service.clock.advance(30)
        assert [m["MessageText"] for m in lease(call, 32)] == ["a", "b"]

    @pytest.mark.parametrize("kind", ["delivered_twice", "broken_xml"])
    def test_faults_in_messages_wait_for_messages(self, call, service, kind):
        service.faults.add(Fault("dequeue", kind, nth=1))
        assert lease(call) == []
        assert call("GET", "/nowhere/messages").status == 404
        assert service.faults.injected == {}
        service.put("orders", "x")
        call("GET", "/orders/messages")
        assert service.faults.injected == {kind: 1}

    def test_slow_holds_up_nobody_else(self, call, service):
        service.faults.add(Fault("put", "slow", seconds=60))
        failures = []

        def put():
            try:
                call("POST", "/orders/messages", message_xml("x"))
            except urllib3.exceptions.ProtocolError as failure:
                failures.append(failure)

        sender = threading.Thread(target=put)
        sender.start()
        service.wait_until(lambda: service.requests["put"] == 1, timeout=10)
        # It has taken effect, only its answer is not out.
        assert [m["MessageText"] for m in lease(call)] == ["x"]
        service.stop()
        sender.join(10)
        assert len(failures) == 1

    def test_slow_goes_with_another(self, call, service):
        service.faults.add(Fault("*", "slow", seconds=0.05), Fault("dequeue", "busy_503"))
        before = time.monotonic()
        assert call("GET", "/orders/messages").status == 503
        assert time.monotonic() - before >= 0.05
        assert service.faults.injected == {"slow": 1, "busy_503": 1}

    def test_lifted_at_runtime(self, call, service):
        service.faults.add(Fault("dequeue", "busy_503"))
        assert call("GET", "/orders/messages").status == 503
        service.faults.clear()
        assert call("GET", "/orders/messages").status == 200
        assert service.faults.injected == {"busy_503": 1}


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

    def test_rate_comes_from_the_seed(self):
        def script(seed):
            return FaultScript([Fault("*", "reset", rate=0.5)], seed=seed)

        runs = [self.hits(script(seed), 100) for seed in (1, 1, 2)]
        assert runs[0] == runs[1] != runs[2]
        assert 30 < len(runs[0]) < 70

    def test_other_faults_do_not_shift_the_draws(self):
        alone = FaultScript([Fault("dequeue", "reset", rate=0.3)])
        mixed = FaultScript(
            [Fault("dequeue", "reset", rate=0.3), Fault("dequeue", "busy_503", every=2)]
        )
        for n in range(1, 100):
            one = alone.judge("dequeue", "orders", finds_messages=True).fault
            other = mixed.judge("dequeue", "orders", finds_messages=True).fault
            if one is not None:
                assert other == one
            else:
                assert (other is not None) == (n % 2 == 0)

    def test_the_first_added_wins(self):
        script = FaultScript([Fault("*", "reset", nth=2), Fault("dequeue", "busy_503", every=2)])
        assert self.hits(script, 4) == [2, 4]
        assert script.injected == {"reset": 1, "busy_503": 1}

    def test_kinds_with_a_natural_target_keep_to_it(self):
        script = FaultScript([Fault("*", "not_found"), Fault("*", "delivered_twice")])
        kinds = {
            op: fault and fault.kind
            for op in ("dequeue", "delete", "update", "put", "peek")
            for fault in [script.judge(op, "orders", finds_messages=op == "dequeue").fault]
        }
        assert kinds == {
            "dequeue": "delivered_twice",
            "delete": "not_found",
            "update": "not_found",
            "put": None,
            "peek": None,
        }

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

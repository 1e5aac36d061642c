"""Requests begun together: when a group is finished, and what each kind of request makes of it."""

import pytest
from refs import ORDERS

from spark_azqueue.errors import Outcome, QueueNotFound, ServiceUnavailable
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.calls import Release
from spark_azqueue.service.retry import SETTLE
from spark_azqueue.source.leases.groups import Group, Task, gone_or, let_go, plainly

AWAY = ServiceUnavailable("no answer", outcome=Outcome.RETRY)


def lease(number):
    return Lease(ORDERS, f"m{number}", "r")


def task(group, ended):
    return Task(Release(lease(1)), lease(1), SETTLE, group, ended)


def test_the_first_error_finishes_a_group_though_others_are_under_way():
    group = Group(3)

    group.ended(lease(1), Outcome.OK)
    assert not group.finished.is_set()
    group.ended(lease(2), AWAY)

    assert group.finished.is_set()
    assert group.error is AWAY


def test_a_group_whose_end_cannot_be_told_is_finished():
    def done(refused):
        raise ValueError("a bug")

    group = Group(1, done)

    with pytest.raises(ValueError, match="a bug"):
        group.ended(lease(1), Outcome.OK)

    assert group.finished.is_set()


def test_a_release_in_the_background_that_fails_is_logged_and_is_no_error(caplog):
    group = Group(1)

    let_go(task(group, let_go), AWAY)

    assert group.finished.is_set()
    assert group.error is None
    assert group.done == []
    assert "a lease could not be given back: [AZQUEUE_SERVICE_UNAVAILABLE] no answer" in caplog.text
    assert " no answer; it runs out by itself" in caplog.text


def test_a_release_in_the_background_that_works_is_not_logged(caplog):
    group = Group(1)

    let_go(task(group, let_go), Outcome.OK)

    assert group.done == [lease(1)]
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("end", "error"), [(gone_or, None), (plainly, "the error")], ids=["delete", "release"]
)
def test_only_to_a_restored_delete_a_missing_queue_is_no_error(end, error):
    group = Group(1)
    missing = QueueNotFound("no queue", status=404)

    end(task(group, end), missing)

    assert group.finished.is_set()
    assert group.error is (missing if error else None)

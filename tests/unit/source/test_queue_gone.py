"""A queue is deleted while a batch of it is stored and not settled: createQueue=true goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from executors_query import Query, fill, first_plan

from spark_azqueue.errors import QueueNotFound
from spark_azqueue.testing import FakeQueueService


def test_executors_go_on_when_it_was_made_again(fake: FakeQueueService) -> None:
    """Its messages are gone with it, and have their rows."""
    query = Query(fake)
    sent = fill(query, 8)
    driver, plan = first_plan(query)
    for slot in range(len(plan.slots)):
        query.task(plan, slot)[0]._lease_and_put()  # noqa: SLF001 (killed before its deletes)
    fake.delete_queue("orders")
    with pytest.raises(QueueNotFound, match="with createQueue=true creates it"):
        query.driver().plan(driver.initial, plan.to_json())

    query.config = replace(query.config, create_queue=True)

    again = query.driver()
    assert len(again.plan(again.initial, plan.to_json())) == len(plan.slots)
    assert query.rows(plan) == sent
    more = fill(query, 2, "n")
    following = query.plan(again.latest(plan.to_json(), None))
    assert query.rows(following) == more
    query.close()

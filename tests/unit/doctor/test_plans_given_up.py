"""The doctor on the folder of leaseOn=executors, when a batch was given up."""

from __future__ import annotations

from log_stores import MemoryLogStore
from refs import ref

from spark_azqueue.commands.doctor.plan_checks import plan_findings
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.source.executors.folder import PlanFolder, tombstone
from spark_azqueue.source.executors.given_up import plan_again
from spark_azqueue.source.executors.names import START, PlanId
from spark_azqueue.source.executors.objects import SeenMessages
from spark_azqueue.source.executors.plan import Part, Plan, Slot, Suspected
from spark_azqueue.source.suspects import Evidence, FailureHistory, IsolationRule

OPTIONS = {
    "secret.connectionString": "AccountName=fakeaccount;AccountKey=a2V5;"
    "QueueEndpoint=http://127.0.0.1:1/fakeaccount",
    "queue": "orders",
    "leaseOn": "executors",
    "writeAheadLog": "file:/not/used",
    "deleteAfter": "log",
}


def test_what_waits_after_a_batch_was_given_up_is_told() -> None:
    config = source_config(OPTIONS, {})
    store = MemoryLogStore(kind=EXECUTORS)
    folder = PlanFolder(store, config.account.name)
    folder.open()
    failed = Plan(
        config.account.name, folder.uuid, PlanId(1, "1" * 32), (Slot((ref("orders"),), 10, 1000),)
    )
    folder.put_following(START, failed)
    folder.put_segment(tombstone(failed, 0, "0" * 32))
    history = FailureHistory(6, 6, 1, 1, 1, 7)
    suspects = [
        Suspected((Part(failed.id, 0, first, end),), history)
        for first, end in ((0, 3), (3, 6), (6, 7))
    ]
    following = plan_again(
        failed, suspects, Evidence(), IsolationRule(5, 20), SeenMessages(), 0, gave_up=True
    )
    folder.put_following(failed.id, following)

    found = [*plan_findings("the log", store, config)]

    (told,) = [each for each in found if "abandoned" in each.text]
    assert "the newest batch delivers 3 of its messages, and 4 wait for later ones" in told.text
    assert told.good is None
    assert "start it again" in told.advice
    assert not any(each.good is False for each in found)

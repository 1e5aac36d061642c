"""A restart after a batch that was not committed: its messages are available again."""

import pytest
from consuming import batch, bodies, leased, run_one_batch, texts
from doubles import NeverRuns

from spark_azqueue.errors import AccessDenied
from spark_azqueue.service.workers import Workers
from spark_azqueue.testing import Fault


def never_deletes(count, name):
    return NeverRuns() if name == "leases" else Workers(count, name)


@pytest.mark.parametrize("probes", [True, False])
def test_an_unfinished_batch_is_available_again_at_once(spark, fake, probes):
    e0, e1 = run_one_batch(spark, fake, "a", "b")
    again = spark.start()

    if probes:
        assert again.plan(e1, e1) == []
    assert again.plan(e0, e1) == []

    assert fake.visible("orders") == 2
    e2 = again.latest(None if probes else e1, None)
    assert sorted(bodies(again.plan(e1, e2))) == ["a", "b"]
    assert e2["batch"] == 2
    again.latest(e2, None)
    assert fake.count("orders") == 0


def test_the_batch_before_an_unfinished_one_is_settled(spark, fake):
    fake.put("orders", "a")
    first = spark.start(make_workers=never_deletes)
    spark.running.remove(first)  # killed: it never stops
    e1, _ = batch(first, first.initial)
    fake.put("orders", "b")
    e2, _ = batch(first, e1)
    assert sorted(texts(fake)) == ["a", "b"]

    again = spark.start()
    assert again.plan(e1, e2) == []

    assert texts(fake) == ["b"]
    assert fake.visible("orders") == 1


def test_a_replayed_message_leased_anew_survives_the_commit_of_the_old_batch(spark, fake):
    # Given a replay of batch 1 that released X
    e0, e1 = run_one_batch(spark, fake, "X")
    again = spark.start()
    again.plan(e0, e1)

    # When X comes into batch 2, and only then batch 1 is committed
    e2, found = batch(again, e1)
    again.committed(e1)

    # Then X is still there: its row is in batch 2, which is not committed
    assert found == ["X"]
    assert texts(fake) == ["X"]
    again.latest(e2, None)
    assert fake.count("orders") == 0


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_replay_that_is_broken_off_is_done_again_by_the_next_run(spark, fake, fails_at):
    # Given a replay of three messages that fails at one of them
    e0, e1 = run_one_batch(spark, fake, "a", "b", "c")
    broken = spark.start(deleteParallelism="1")
    broken.engine.open()
    fake.faults.add(Fault("update", "forbidden", nth=fails_at))
    with pytest.raises(AccessDenied):
        broken.plan(e0, e1)

    # When two further runs replay it, one after the other
    fake.faults.clear()
    for _ in range(2):
        again = spark.start()
        assert again.plan(e0, e1) == []

    # Then everything is there, once, and nothing was deleted
    e2, found = batch(again, e1)
    assert sorted(found) == ["a", "b", "c"]
    assert fake.requests["delete"] == 0
    again.latest(e2, None)
    assert fake.count("orders") == 0


def test_a_commit_of_a_batch_whose_replay_failed_deletes_nothing_by_a_living_receipt(spark, fake):
    # A run that could not make sure does not get as far as a commit; the next one replays.
    e0, e1 = run_one_batch(spark, fake, "a")
    broken = spark.start()
    broken.engine.open()
    fake.faults.add(Fault("update", "forbidden"))

    with pytest.raises(AccessDenied):
        broken.plan(e0, e1)

    assert leased(fake) == ["a"]
    assert fake.requests["delete"] == 0

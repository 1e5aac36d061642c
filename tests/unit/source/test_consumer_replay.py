"""A restart after a batch that was not committed: its messages are available again."""

import pytest
from consuming import batch, bodies, run_one_batch

from spark_azqueue.errors import AccessDenied
from spark_azqueue.testing import Fault


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


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_replay_that_is_broken_off_is_done_again_by_the_next_run(spark, fake, fails_at):
    # Given a replay of three messages that fails at one of them
    e0, e1 = run_one_batch(spark, fake, "a", "b", "c")
    broken = spark.start(parallelism="1")
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

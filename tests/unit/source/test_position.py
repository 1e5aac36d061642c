"""What Spark's calls tell of where it is; `test_commits.py` has what they prove."""

from spark_azqueue.source.batches.commits import Position


def offset(batch):
    return {"version": 1, "batch": batch, "account": "acc", "queues": {"q": f"r{batch}"}}


INITIAL, N1, N2 = (offset(n) for n in (0, 1, 2))


def test_a_question_alone_makes_nothing_known():
    position = Position(INITIAL)

    position.asked()
    position.assumed(N1)

    assert not position.is_known
    assert position.asked() == (INITIAL, False)


def test_each_offset_that_spark_names_makes_its_position_known():
    for event in ("handed_out", "probed", "planned"):
        position = Position(INITIAL)
        getattr(position, event)(N1)
        assert position.is_known, event
        assert position.asked()[0] == N1, event


def test_what_was_handed_out_or_assumed_in_this_run_is_known_again_at_every_plan():
    for event in ("handed_out", "assumed"):
        position = Position(INITIAL)
        getattr(position, event)(N2)
        assert [position.planned(dict(reversed(N2.items()))) for _ in range(2)] == [True, True]


def test_a_batch_of_an_earlier_run_is_not_taken_for_one_of_this_run():
    position = Position(INITIAL)
    assert not position.planned(N1)

    position.handed_out(N2)

    assert not position.planned(N1)


def test_offsets_that_are_handed_out_are_counted():
    position = Position(INITIAL)
    position.probed(N1)
    position.handed_out(N2)

    assert position.batches == 1

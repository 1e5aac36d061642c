"""FairQueue: items wait by queue, and queues take turns."""

from spark_azqueue.service.queues.flow import FairQueue


def lanes_of(**items):
    lanes = FairQueue()
    for key, each in items.items():
        for item in each:
            lanes.add(key, item)
    return lanes


def drained(lanes, without=()):
    taken = []
    while found := lanes.next(without):
        taken.append(found)
    return taken


def test_lanes_take_turns_and_each_keeps_its_order():
    lanes = lanes_of(a=[1, 2, 3], b=[4])
    assert len(lanes) == 4

    assert drained(lanes) == [("a", 1), ("b", 4), ("a", 2), ("a", 3)]
    assert not lanes


def test_what_is_put_back_is_first_in_its_lane_again():
    lanes = lanes_of(a=[1, 2])

    lanes.put_back(*lanes.next())

    assert drained(lanes) == [("a", 1), ("a", 2)]


def test_some_lanes_may_be_left_out():
    lanes = lanes_of(a=[1], b=[2, 3])

    assert drained(lanes, without={"a"}) == [("b", 2), ("b", 3)]
    assert "a" in lanes
    assert "b" not in lanes
    assert len(lanes) == 1


def test_items_can_be_taken_out_of_all_lanes():
    lanes = lanes_of(a=[1, 2], b=[3], c=[4])

    assert lanes.take(lambda item: item != 2) == [1, 3, 4]
    assert drained(lanes) == [("a", 2)]
    assert lanes.take() == []


def test_a_lane_whose_item_cannot_begin_waits_and_the_others_go_on():
    lanes = lanes_of(a=[1, 2], b=[3, 4, 5], c=[6])
    begun = []

    def begin(item):
        if item in {2, 4}:
            return False
        begun.append(item)
        return True

    lanes.begin(begin)

    assert begun == [1, 3, 6]
    assert drained(lanes) == [("a", 2), ("b", 4), ("b", 5)]


def test_nothing_makes_no_lane():
    assert "a" not in lanes_of(a=[])

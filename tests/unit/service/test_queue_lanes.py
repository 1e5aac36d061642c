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


def test_items_can_be_taken_out_of_all_lanes():
    lanes = lanes_of(a=[1, 2], b=[3], c=[4])

    assert lanes.take(lambda item: item != 2) == [1, 3, 4]
    assert drained(lanes) == [("a", 2)]
    assert lanes.take() == []

"""What a worker has loaded is left out of its collections, what it makes later is not."""

import gc
import subprocess
import sys

PROGRAM = """
import gc, weakref
from spark_azqueue.service.workers import freeze_loaded_modules

class Node: pass

freeze_loaded_modules()
frozen = gc.get_freeze_count()
node = Node()
node.itself = node
gone = weakref.ref(node)
del node
gc.collect()
freeze_loaded_modules()
print(frozen > 1000, gone() is None, gc.get_freeze_count() == frozen)
"""


def test_what_is_made_later_is_collected_and_nothing_is_left_out_twice():
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )

    assert answer.stdout.split() == ["True", "True", "True"]
    assert gc.isenabled()


SELDOM = """
import gc
from spark_azqueue.service.workers import collect_seldom

collect_seldom()
before = gc.get_stats()[0]["collections"]
kept = [[] for _ in range(15_000)]
print(gc.get_stats()[0]["collections"] - before, gc.isenabled())
"""


def test_a_batch_of_objects_is_not_looked_at_again_and_again():
    answer = subprocess.run(
        [sys.executable, "-c", SELDOM], capture_output=True, text=True, check=True
    )

    collections, enabled = answer.stdout.split()
    assert int(collections) <= 1
    assert enabled == "True"

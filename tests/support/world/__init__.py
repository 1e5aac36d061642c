"""One simulated world for the machines of all protocols, in three parts.

The service: queues by the rules of `testing/model.py` (`answers.py`), the way to them
(`service.py`), what becomes of requests (`fates.py`), and other programs (`others.py`). Processes:
how one sees the service, and where it is killed (`process.py`, `turns.py`). Spark: what it does
with a source (`spark.py`, `logged.py`). `disturbances.py` lists what may happen to all of them.
"""

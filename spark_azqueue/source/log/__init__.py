"""The write-ahead log: where it is stored, and what is in it.

Read first: `segment.py` (what a batch is on the disk), `log.py` (the order of what is written),
`recovery.py` (how a run takes it over).
"""

"""Write-ahead log of leaseOn=driver: its place and its contents.

Read first: `segment.py` (a batch on disk), `log.py` (the order of writes), `recovery.py` (how a run
takes the log over).
"""

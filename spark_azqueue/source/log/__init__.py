"""Write-ahead log of leaseOn=driver.

Read first: `segment.py` (a batch on disk), `log.py` (the order of writes), `recovery.py` (how a new
run becomes the log's writer).
"""

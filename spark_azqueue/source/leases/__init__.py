"""What is leased: known, renewed, deleted, released.

Read first: `ledger.py` (what is known of each message), `holder.py` (what a consumer does with it),
`worker.py` (the thread that sends). A consumer without a log: `source/driver/leased.py`.
"""

"""transactionLog: messages are put hidden, recorded in a log, then shown.

Read first: `record.py` (what is logged of a batch), `task.py` (what a task puts), `commit.py` (what
the driver does when all tasks are done).
"""

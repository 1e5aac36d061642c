"""leaseOn=executors: tasks dequeue, store and delete, and the offset is their plan.

Read first: `objects.py` (what driver and tasks write for each other), `slot.py` (what a task does),
`planning.py` (what the driver does between two plans).
"""

"""leaseOn=executors: tasks dequeue, store and delete messages. The offset of a batch is the plan of
the batch.

Read first: `objects.py` (objects that driver and tasks exchange), `slot.py` (work of a task),
`planning.py` (work of the driver between two plans).
"""

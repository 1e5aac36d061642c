"""leaseOn=executors: tasks dequeue, store and delete, and the offset of a batch is its plan.

Read first: `objects.py` (objects that driver and tasks exchange), `slot.py` (work of a task),
`planning.py` (work of the driver between two plans).
"""

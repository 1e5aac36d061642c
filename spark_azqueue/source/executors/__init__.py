"""leaseOn=executors: tasks dequeue, store and delete, and the offset is their plan."""

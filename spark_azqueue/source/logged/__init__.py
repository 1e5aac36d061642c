"""Options and rows of logged batches, for the logs of drivers and of executors."""

"""leaseOn=driver: leasing on the driver, the consumer without a log, and the messages left in
queues between runs."""

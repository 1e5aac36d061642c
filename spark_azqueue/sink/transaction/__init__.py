"""transactionLog: messages are put hidden, recorded in a log, then shown."""

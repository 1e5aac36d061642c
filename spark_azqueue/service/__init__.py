"""Access to the storage account for the whole package: queues, blobs, credentials, retries."""

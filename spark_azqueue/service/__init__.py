"""The storage account as the rest of the package sees it: queues, blobs, credentials, retries."""

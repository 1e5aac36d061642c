"""How micro-batches are made: which queue is asked, which messages go together."""

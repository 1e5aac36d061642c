"""What is leased: known, renewed, deleted, released."""

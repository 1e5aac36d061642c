"""What a query reports, and who listens to it."""

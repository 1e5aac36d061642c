"""The source of streams, and the peek for batch reads."""

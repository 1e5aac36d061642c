"""The stream source and the peek."""

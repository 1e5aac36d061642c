"""Draws throughput."""
def draw(results, path): pass

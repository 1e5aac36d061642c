"""The options. The configs of source and sink declare them on their fields."""

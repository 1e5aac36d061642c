"""Where logs are stored: folders of objects, each written once and checked when it is read."""

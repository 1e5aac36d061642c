"""The command line `python -m spark_azqueue`, and its commands for people who are on call."""

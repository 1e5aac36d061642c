"""`python -m spark_azqueue`: check the installation and the queues."""

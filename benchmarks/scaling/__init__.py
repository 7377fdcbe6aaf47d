"""Step time over the number of data hosts, against the ideal."""

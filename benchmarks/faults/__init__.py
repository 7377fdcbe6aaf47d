"""The behaviour of a job under faults."""

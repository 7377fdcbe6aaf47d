"""A judge of exactly-once that shares no code with the audit."""

"""The first batch of a host that has no compiler and an empty cache, and of one with a warm cache."""

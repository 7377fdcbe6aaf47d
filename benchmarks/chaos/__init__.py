"""Jobs under faults that are drawn at random."""

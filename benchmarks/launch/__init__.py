"""tfhet's launcher against the launcher of AWS's example."""

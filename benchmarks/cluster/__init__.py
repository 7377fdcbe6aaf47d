"""Training with and without data hosts, on scaled instances."""

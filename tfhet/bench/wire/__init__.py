"""Ways for batches to get from one process to another, each set up, asked for batches, and watched by its CPU time."""

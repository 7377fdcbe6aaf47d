"""cluster_runs."""

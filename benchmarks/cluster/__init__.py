"""AWS's comparison of clusters, and their price."""

"""Training scripts with one planted bottleneck each, and the answer of `tfhet watch` that is expected from each."""

"""Training scripts of others: what tfhet says of their steps, against a stopwatch in their loops."""

"""What workers on a host cost the training on it."""

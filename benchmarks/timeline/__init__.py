"""What the notes of where the time goes cost."""

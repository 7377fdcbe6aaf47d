"""What many files, large files and the gap between epochs cost."""

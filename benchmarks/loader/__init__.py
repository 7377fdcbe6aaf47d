"""Data loaders of JPEG photos: tfhet and other libraries, each in a process of its own."""

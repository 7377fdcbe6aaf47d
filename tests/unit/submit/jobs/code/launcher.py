"""Stands for scripts/launcher.py."""

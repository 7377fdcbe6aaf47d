"""`tfhet try` inside of a script: another loader takes the place of the script's own one while the script trains."""

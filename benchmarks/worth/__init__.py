"""Which published trainings are input-bound, and where a data group is worth its price."""

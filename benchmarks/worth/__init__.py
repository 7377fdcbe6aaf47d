"""Which published training runs are input-bound, and where a data group is worth its price."""

"""Units as constants. Fields carry theirs in the name: `_s`, `_bytes`, `_usd_per_hour`."""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
KB = 1000
MB = 1000 * KB
GB = 1000 * MB
MICROSECOND_S = 1e-6
HOUR_S = 3600.0

"""A user's script that trains without data of tfhet."""

from __future__ import annotations

import time

time.sleep(0.5)

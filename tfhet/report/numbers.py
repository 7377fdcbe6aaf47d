"""Numbers for people: three significant digits, a unit, and a dash if unknown."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from tfhet.record import Figure, Spread
from tfhet.units import GIB, KIB, MIB

MISSING = "–"


def number(value: float | int | None, digits: int = 3, unit: str = "") -> str:
    """Returns at least `digits` significant digits: 4120, 86.1, 0.0312, 95,143; a dash for None."""
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if value == 0:
        shown = "0"
    elif isinstance(value, float) and not 1e-4 <= abs(value) < 1e15:
        shown = f"{value:.{digits - 1}e}"
    else:
        decimals = 0 if isinstance(value, int) else max(0, digits - 1 - math.floor(math.log10(abs(value))))
        shown = f"{value:.{decimals}f}"
        if len(shown.partition(".")[0].lstrip("-")) > 4:
            shown = f"{value:,.{decimals}f}"
    return f"{shown} {unit}" if unit else shown


def percent(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return number(value)
    return f"{value:.1f} %"


def usd(value: float | None) -> str:
    return MISSING if value is None else f"${number(value)}"


def duration(seconds: float | None) -> str:
    """Returns seconds in a suitable unit: 180 ms, 4.21 s, 3 min 12 s, 2 h 05 min."""
    if seconds is None or not math.isfinite(seconds):
        return number(seconds)
    if seconds < 1:
        return number(seconds * 1000.0, unit="ms")
    if seconds < 60:
        return number(float(seconds), unit="s")
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def size(count_bytes: float | None) -> str:
    if count_bytes is None:
        return MISSING
    for factor, unit in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count_bytes >= factor:
            return number(count_bytes / factor, unit=unit)
    return number(float(count_bytes), unit="B")


def moment(wall_s: float | None) -> str:
    """Returns seconds since 1970 as UTC date and time, or as a number beyond the calendar."""
    if wall_s is None:
        return MISSING
    try:
        return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):  # no year of the calendar
        return number(wall_s, unit="s")


def spread(value: Spread | None, unit: str) -> str:
    if value is None:
        return MISSING
    return f"{number(value.median)} {unit} (p10 {number(value.p10)}, p90 {number(value.p90)})"


def interval(figure: Figure) -> str:
    return f"{number(figure.low)} to {number(figure.high)}"


def level(figure: Figure) -> str:
    """Returns the confidence level of a figure's interval: `95 %`; may be empty."""
    return "" if figure.level is None else f"{math.floor(100 * figure.level)} %"


def exit_code(code: int | None) -> str:
    if code is None:
        return "not seen to end"
    return f"signal {-code}" if code < 0 else str(code)


def value(content: object) -> str:
    if isinstance(content, (list, tuple)):
        return ", ".join(str(item) for item in content) or MISSING
    if content is None or (isinstance(content, (int, float)) and not isinstance(content, bool)):
        return number(content)
    return str(content)

"""Numbers as a reader meets them: shares, tokens, intervals, differences, durations."""


def share(value: float) -> str:
    return f"{100 * value:.1f} %"


def interval(triple, form) -> str:
    """'value [low, high]'."""
    value, low, high = triple
    unit = " %"
    ends = f"[{form(low).removesuffix(unit)}, {form(high).removesuffix(unit)}]"
    return f"{form(value)} {ends}"


def tokens(value: float) -> str:
    """Thin spaces between thousands: commas are taken by intervals."""
    return (f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.1f}").replace(",", "\u202f")


def signed(triple, form) -> str:
    """A difference: shares in percentage points, all with a sign."""
    if form is share:
        value, low, high = (f"{100 * v:+.1f}" for v in triple)
        return f"{value} points [{low}, {high}]".replace("-", "\u2212")
    value, low, high = (("+" if v > 0 else "") + form(v) for v in triple)
    return f"{value} [{low}, {high}]".replace("-", "\u2212")


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def disjoint(a, b) -> bool:
    """Whether two [value, low, high] have intervals without a common point."""
    return a[2] < b[1] or b[2] < a[1]

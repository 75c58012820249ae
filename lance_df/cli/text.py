"""Numbers for people."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size_text(num_bytes: int) -> str:
    """Return a size such as ``"1.5 MiB"``."""
    size, unit = float(num_bytes), _UNITS[0]
    for unit in _UNITS:  # noqa: B007 - the unit that fits, or the last
        if size < 1024:
            break
        size /= 1024
    else:
        size *= 1024
    return f"{num_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def count_text(number: int, noun: str) -> str:
    """Return a count such as ``"1 page"`` or ``"2,000 pages"``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

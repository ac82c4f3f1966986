"""When, where and with what the numbers were made."""

from __future__ import annotations

from fmpair.report.facts import facts
from fmpair.reproduction.claims import Found


def provenance(found: Found) -> dict[str, str]:
    """Facts by name, of all runs together."""
    told = [one.manifest for one in found.values() if one.manifest.get("ended")]
    if not told:
        return {}
    first = told[0]
    budget = {
        "experiments": len(told),
        "models fitted": sum(len(one.cells) for one in found.values()),
        "seconds": round(sum(one["seconds"] for one in told)),
        "peak_mb": max(one["peak_mb"] for one in told),
    }
    return facts(budget | {name: first[name] for name in ("versions", "machine")})

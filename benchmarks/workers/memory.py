"""How much memory this process holds, and held at most."""

import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def memory():
    """(bytes held now, most bytes held so far).

    On Linux from /proc: there ru_maxrss begins with what the parent held when it forked.
    """
    if STATUS.exists():
        lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
        now, most = (int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        return now, most
    unit = 1 if sys.platform == "darwin" else 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return most, most

"""Decode a Parquet file in a process of its own: python -P parquet_trial.py FILE|- CELLS [ROWS].

A damaged file can make polars ask for exabytes of memory and crash. Then only this process ends.
A file that cannot be read gives one line on standard output and the exit code 1.
"""

from __future__ import annotations

import sys

CELL = 32  # the most bytes that decoding a cell takes, with its result
ROOM = 512 << 20  # bytes that the decoder itself may take


def limit_memory(most: int) -> None:
    """Let the process take at most this many bytes more than it has, where the system can."""
    try:
        import resource
        from pathlib import Path

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        wanted = used + most
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))
    except (ImportError, OSError, ValueError):  # not Linux
        return


def main(name: str, cells: str, rows: str | None = None) -> None:
    """Decode a file, or standard input for -, unless its table has more than `cells` cells."""
    import polars as pl

    source = sys.stdin.buffer.read() if name == "-" else name
    limit_memory(CELL * int(cells) + ROOM)
    try:
        table = pl.scan_parquet(source, glob=False)
        size = table.select(pl.len()).collect().item() * len(table.collect_schema())
        if size <= int(cells):  # otherwise it will be refused
            pl.read_parquet(source, glob=False, n_rows=int(rows) if rows else None)
    except BaseException as error:  # a panic of polars is not an Exception
        print(next(iter(str(error).splitlines()), type(error).__name__))
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Trials of Parquet files in forks of one process, which start in milliseconds: for many files.

`subprocess.run` of `fmpair.data.formats.parquet` starts Python and imports polars for every file,
which is most of the time of a trial. The process here has imported polars and run nothing.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace


def serve() -> None:
    """Run a trial for each line of standard input, and print its exit code and output."""
    import polars  # noqa: F401  before the forks; its threads start in them

    from fmpair.data.formats import parquet_trial

    for line in sys.stdin:
        given = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as content:
            content.write(base64.b64decode(given["input"]))
            content.seek(0)
            child = os.fork()
            if not child:
                os.dup2(content.fileno(), 0)
                os.dup2(out.fileno(), 1)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                sys.stdin = os.fdopen(0)
                code = 0
                try:
                    parquet_trial.main(*given["arguments"])
                except SystemExit as end:
                    code = end.code
                sys.stdout.flush()
                os._exit(code)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            out.seek(0)
            said = out.read().decode(errors="replace")
        print(json.dumps({"code": code, "said": said}), flush=True)


class Trials:
    """A process that forks for every trial; `run` stands in for `subprocess.run`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faults.trial_server"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, command, input=b"", **_):
        content = base64.b64encode(input).decode()
        print(
            json.dumps({"arguments": command[3:], "input": content}),
            file=self._process.stdin, flush=True,
        )  # fmt: skip
        answer = json.loads(self._process.stdout.readline())
        return SimpleNamespace(returncode=answer["code"], stdout=answer["said"].encode())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


if __name__ == "__main__":
    serve()

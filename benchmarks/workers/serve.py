"""The far end of a worker: one request a line comes in, one answer a line goes out, as JSON."""

import json
import os
import sys


def serve(**commands):
    """Answer requests {"do": name of a command, its arguments} until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not end up among the answers
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = commands[request.pop("do")](**request)
        except Exception as error:  # the near end decides what a failure means
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)

"""Problems (RFC 9457): what a service answers instead of a result."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from fmpair.errors import FmpairError, MachineError, ProcessError, UnknownError, in_file, one_line

PROBLEM_TYPE = b"application/problem+json"
TITLES = {
    400: "Invalid request",
    401: "API key required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    413: "Request too large",
    422: "Invalid value",
    429: "Too many requests",
    431: "Request head too large",
    500: "Internal error",
    501: "Not available",
    503: "Service unavailable",
}


class ProblemDetails(Struct):
    """An error. type: its kind; detail: one line for people."""

    type: str
    title: str
    status: int
    detail: str


class ProblemError(Exception):
    """Ends a request. headers: further headers of the response."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def problem_of(error: Exception) -> ProblemError:
    """Return what to tell a client about an error; nothing about an unexpected one."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, msgspec.ValidationError):
        return ProblemError(422, one_line(str(error)))
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return ProblemError(400, f"the body is not valid JSON: {one_line(str(error))}")
    if isinstance(error, UnknownError):
        return ProblemError(404, error.spelled(in_file))
    if isinstance(error, MachineError | ProcessError):
        return ProblemError(503, error.spelled(in_file), retry_after="1")
    if isinstance(error, FmpairError):
        return ProblemError(422, error.spelled(in_file))
    return ProblemError(500, "internal error; see the log of the service")


def problem_json(problem: ProblemError) -> bytes:
    """Return a problem as JSON."""
    kind = f"urn:fmpair:problem:{problem.status}"
    title = TITLES.get(problem.status, "Error")
    return msgspec.json.encode(ProblemDetails(kind, title, problem.status, problem.detail))

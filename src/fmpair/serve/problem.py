"""What went wrong, as RFC 9457 has it: one line that says what, and what would be right."""

from __future__ import annotations

from typing import Any

import msgspec

from fmpair.errors import FmpairError, MachineError, ProcessError, UnknownError, in_file, one_line

MEDIA = "application/problem+json"
TITLES = {
    400: "The request cannot be read",
    401: "A key is needed",
    403: "Not for this client",
    404: "Not known here",
    405: "Not a method of this address",
    408: "The request came too slowly",
    413: "The request is too large",
    422: "The request asks for what cannot be",
    429: "Too many requests",
    500: "A mistake of the service",
    501: "Not part of this service",
    503: "The service cannot answer now",
}


class Problem(msgspec.Struct):
    """type: a name for this kind of problem; detail: the line for people."""

    type: str
    title: str
    status: int
    detail: str


class ProblemError(Exception):
    """Ends a request. headers: of the response, besides its own."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def problem_of(error: Exception) -> ProblemError:
    """What to tell a client of an error; of one that nobody foresaw, nothing but that it was."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, msgspec.ValidationError):
        return ProblemError(422, one_line(str(error)))
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return ProblemError(400, f"the body is no JSON: {one_line(str(error))}")
    if isinstance(error, UnknownError):
        return ProblemError(404, error.told(in_file))
    if isinstance(error, MachineError | ProcessError):
        return ProblemError(503, error.told(in_file), retry_after="1")
    if isinstance(error, FmpairError):
        return ProblemError(422, error.told(in_file))
    return ProblemError(500, "the service made a mistake; its log says more")


def body_of(problem: ProblemError) -> bytes:
    """The problem as JSON."""
    title = TITLES.get(problem.status, "A problem")
    kind = f"urn:fmpair:problem:{problem.status}"
    shown: Any = Problem(kind, title, problem.status, problem.detail)
    return msgspec.json.encode(shown)

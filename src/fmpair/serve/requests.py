"""What may be asked over HTTP, and what is answered: the wire format, as types."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from fmpair.errors import FmpairError, MachineError, ProcessError, UnknownError, in_file, one_line

# What went wrong, as RFC 9457 has it: one line that says what, and what would be right.


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
        return ProblemError(404, error.spelled(in_file))
    if isinstance(error, MachineError | ProcessError):
        return ProblemError(503, error.spelled(in_file), retry_after="1")
    if isinstance(error, FmpairError):
        return ProblemError(422, error.spelled(in_file))
    return ProblemError(500, "the service made a mistake; its log says more")


def body_of(problem: ProblemError) -> bytes:
    """The problem as JSON."""
    title = TITLES.get(problem.status, "A problem")
    kind = f"urn:fmpair:problem:{problem.status}"
    shown: Any = Problem(kind, title, problem.status, problem.detail)
    return msgspec.json.encode(shown)


MOST_N = 1_000
MOST_QUESTIONS = 256  # of a batch
MOST_ITEMS = 10_000  # of a list of candidates, of items to exclude, of items to score
MOST_HISTORY = 1_000
MOST_EVENTS = 1_000
MOST_VALUES = 200  # of a context column that the model card names
LONGEST = 1_024  # characters of an id or a value

Text = Annotated[str, Meta(max_length=LONGEST)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Id = Text | Whole | float
Value = (
    Text
    | Whole
    | float
    | bool
    | Annotated[list[Text | Whole | float], Meta(max_length=MOST_HISTORY)]
    | Annotated[dict[Text, float], Meta(max_length=MOST_HISTORY)]
    | None
)
Context = Annotated[
    dict[Text, Value],
    Meta(
        description="The situation, by column; what is left out is left open.",
        examples=[{"daytime": "evening"}],
        max_length=100,
    ),
]
Time = Annotated[
    Text | Whole | float | None,
    Meta(
        description="When: text such as 2024-01-31T18:30:00 (UTC), or seconds since 1970; now if "
        "it is left out."
    ),
]
Count = Annotated[int, Meta(description="How many items.", ge=1, le=MOST_N)]
History = Annotated[
    list[Id],
    Meta(
        description="Items that a visitor without an id, or the user, has looked at, oldest first.",
        max_length=MOST_HISTORY,
    ),
]
Items = Annotated[list[Id], Meta(max_length=MOST_ITEMS)]
Unknown = Annotated[
    Literal["error", "ignore", "features", "popular"],
    Meta(
        description="What the model does not know. error: refuse it; ignore: pass over items, "
        "refuse users and values; features: go by what is known; popular: as for anyone."
    ),
]
User = Annotated[Id | None, Meta(description="Who asks; null for nobody in particular.")]


class Asked(Struct, forbid_unknown_fields=True, kw_only=True):
    """Who asks, and in which situation."""

    user: User = None
    context: Context = {}
    history: History | None = None
    time: Time = None
    unknown: Unknown = "error"


class Recommend(Asked):
    """The best items for a user or a visitor."""

    n: Count = 10
    candidates: Annotated[Items | None, Meta(description="Only these items.")] = None
    exclude: Annotated[Items, Meta(description="None of these items.")] = []
    exclude_seen: Annotated[
        bool, Meta(description="Leave out what the user has seen, and the history.")
    ] = True
    explain: Annotated[bool, Meta(description="With the terms of each score.")] = False


class Batch(Struct, forbid_unknown_fields=True):
    """Several questions at once."""

    questions: Annotated[list[Recommend], Meta(min_length=1, max_length=MOST_QUESTIONS)]


class Score(Asked):
    """The scores of given items, in their order."""

    items: Annotated[list[Id], Meta(min_length=1, max_length=MOST_ITEMS)]


class Explain(Asked):
    """The terms that one item's score is made of."""

    item: Id


class Similar(Struct, forbid_unknown_fields=True):
    """The most similar items, or users: name one of the two."""

    item: Id | None = None
    user: Id | None = None
    n: Count = 10


class NewEvent(Struct, forbid_unknown_fields=True):
    """Something that a user did."""

    user: Id
    item: Id
    time: Time = None
    context: Context | None = None


class NewEvents(Struct, forbid_unknown_fields=True):
    """What users did: the next answers know of it."""

    events: Annotated[list[NewEvent], Meta(min_length=1, max_length=MOST_EVENTS)]


class Term(Struct):
    """What a feature of the query and one of the item add to a score; query is empty for what the
    item adds for anyone.
    """

    query: str
    item: str
    value: float


class Ranked(Struct, omit_defaults=True):
    """An item of a list. terms: what its score is made of, largest first."""

    item: Any
    score: float
    rank: int
    terms: list[Term] | None = None


class Recommended(Struct, omit_defaults=True):
    """A list, best first. model: the id of the model that answered; arm: which of the models in
    service that is.
    """

    items: list[Ranked]
    model: str
    arm: str = ""


class RecommendedBatch(Struct):
    """The answers, in the order of the questions."""

    answers: list[Recommended]


class Scored(Struct):
    """An item with its score."""

    item: Any
    score: float


class Scores(Struct, omit_defaults=True):
    """Scores of the items asked for, those that are known, in the order given."""

    items: list[Scored]
    model: str
    arm: str = ""


class Explained(Struct, omit_defaults=True):
    """A score, and the terms that add up to it, largest first."""

    item: Any
    score: float
    terms: list[Term]
    model: str
    arm: str = ""


class Neighbour(Struct):
    """A similar item or user."""

    id: Any
    similarity: float
    rank: int


class Neighbours(Struct):
    """The most similar, best first."""

    similar: list[Neighbour]
    model: str


class Taken(Struct):
    """How many events are kept, and the position of the last."""

    taken: int
    position: int


class KeptEvent(Struct):
    """An event as it is kept."""

    position: int
    user: Any
    item: Any
    time: str
    context: dict[str, Any] | None = None
    arm: str = ""
    model: str = ""


class KeptEvents(Struct):
    """Events after a position, oldest first; position: where to go on."""

    events: list[KeptEvent]
    position: int


class ContextColumn(Struct):
    """A column of the context. values: those known, at most 200 of them; count: of all."""

    name: str
    kind: str
    values: list[Any]
    count: int


class Refused(Struct):
    """A model file that was to take the place of one in service, and why it did not."""

    why: str
    when: str


class ModelCard(Struct):
    """What is known of a model in service. refused: the last file that was to take its place."""

    model: str
    arm: str
    recipe: str
    options: dict[str, Any]
    users: int
    items: int
    factors: int | None
    context: list[ContextColumn]
    knows_time: bool
    goes_by_history: bool
    checksum: str
    data: dict[str, Any] | None
    metrics: dict[str, float] | None
    saved: str
    loaded: str
    id_columns: list[str]
    explains: bool
    refused: Refused | None = None


class Cards(Struct):
    """The models in service, the first for most users."""

    models: list[ModelCard]
    fmpair: str
    events: bool


class Found(Struct):
    """Ids that begin with a text."""

    ids: list[Any]
    count: int


class Alive(Struct):
    """The process answers."""

    status: str

"""The wire format: requests and answers as types."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from fmpair.events.event import MAX_TYPE_LENGTH, MAX_VALUE

MAX_N = 1_000
MAX_QUESTIONS = 256  # per batch
MAX_ITEMS = 10_000  # to rank, exclude or score
MAX_HISTORY = 1_000
MAX_GIVEN = 100  # context columns or attributes of users
MAX_NUMBERS = 16_384  # of a list as a value, such as a vector
MAX_EVENTS = 1_000
MAX_RULES = 50  # conditions, limits or boosts of a request
MAX_COLUMNS = MAX_VALUES = 200  # of an item; listed per context column of a model card
LONGEST = 1_024  # characters of an id or a value

Text = Annotated[str, Meta(max_length=LONGEST)]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Id = Text | Whole | float
Weights = Annotated[dict[Text, float], Meta(max_length=MAX_HISTORY)]
StoredList = Annotated[list[Text | Whole | float], Meta(max_length=MAX_NUMBERS)]
StoredValue = Text | Whole | float | bool | StoredList | Weights | None  # of an event
# A null inside a list is refused or left out by its column, whose line says more than msgspec's.
ValueList = Annotated[list[Text | Whole | float | None], Meta(max_length=MAX_NUMBERS)]
Value = Text | Whole | float | bool | ValueList | Weights | None
Degree = Annotated[float, Meta(ge=0, le=1)]
Boosts = Annotated[dict[Text, float], Meta(max_length=MAX_HISTORY)]
ABOUT_CONTEXT = Meta(
    description="Context values by column; missing columns are unknown.",
    examples=[{"daytime": "evening"}],
    max_length=MAX_GIVEN,
)
Context = Annotated[dict[Text, Value], ABOUT_CONTEXT]
EventContext = Annotated[dict[Text, StoredValue], ABOUT_CONTEXT]
UserFeatures = Annotated[
    dict[Text, Value],
    Meta(
        description="Attributes of the user, who may be new; they replace all known ones, and "
        "missing attributes are unknown.",
        examples=[{"age": 25}],
        max_length=MAX_GIVEN,
    ),
]
Time = Annotated[
    Text | Whole | float | None,
    Meta(
        description="The time: text such as 2024-01-31T18:30:00 (UTC), or seconds since 1970; by "
        "default now."
    ),
]
Count = Annotated[int, Meta(description="Number of items.", ge=1, le=MAX_N)]
History = Annotated[
    list[Id],
    Meta(
        description="Items that the user, or a visitor without an id, viewed, oldest first.",
        max_length=MAX_HISTORY,
    ),
]
Items = Annotated[list[Id], Meta(max_length=MAX_ITEMS)]
Unknown = Annotated[
    Literal["error", "ignore", "features", "popular"],
    Meta(
        description="How to treat unknown ids and values. error: reject them; ignore: skip items, "
        "reject users and values; features: use what is known; popular: answer as for anyone. By "
        "default (null) features, and unknown context columns and attributes are left out."
    ),
]
User = Annotated[Id | None, Meta(description="The user id; null for an anonymous visitor.")]
Show = Annotated[
    list[Text],
    Meta(
        description="Columns of the catalogue to return with each item, such as title.",
        max_length=50,
    ),
]


class BaseRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """The user and the context of a request."""

    user: User = None
    user_features: UserFeatures = {}
    context: Context = {}
    history: History | None = None
    time: Time = None
    unknown: Unknown | None = None


class Recommend(BaseRequest):
    """Request the best items for a user or a visitor."""

    n: Count = 10
    candidates: Annotated[Items | None, Meta(description="Rank only these items.")] = None
    exclude: Annotated[Items, Meta(description="Exclude these items.")] = []
    exclude_seen: Annotated[
        bool, Meta(description="Exclude items that the user has seen, and the history.")
    ] = True
    explain: Annotated[bool, Meta(description="Return the terms of each score.")] = False
    where: Annotated[
        Text | Annotated[list[Text], Meta(max_length=MAX_RULES)] | None,
        Meta(
            description="Conditions on columns of items, which all must hold: category=shoes,bags, "
            "price<=50, not brand=ACME."
        ),
    ] = None
    limit: Annotated[
        Annotated[dict[Text, Whole], Meta(max_length=MAX_RULES)] | None,
        Meta(description="At most so many items per value of a column."),
    ] = None
    boost: Annotated[
        Annotated[dict[Text, Boosts], Meta(max_length=MAX_RULES)] | None,
        Meta(description="What a value of a column adds to the score."),
    ] = None
    diversity: Annotated[
        Degree | None, Meta(description="How much less alike the items of a list are, 0 to 1.")
    ] = None
    exclude_shown: Annotated[
        Text | Items | None, Meta(description="Items shown before, or a time such as 7d.")
    ] = None
    rules: Annotated[Text | None, Meta(description="The name of rules of the service.")] = None
    log: Annotated[
        bool, Meta(description="Store the list as shown to the user, with the events.")
    ] = False
    show: Show = []
    arm: Annotated[
        Literal["current", "candidate"] | None,
        Meta(description="Ask this model, whoever the user is; the list is then not stored."),
    ] = None


class RecommendBatch(Struct, forbid_unknown_fields=True):
    """Several recommendation requests at once."""

    questions: Annotated[list[Recommend], Meta(min_length=1, max_length=MAX_QUESTIONS)]


class Score(BaseRequest):
    """Request the scores of given items, in their order."""

    items: Annotated[list[Id], Meta(min_length=1, max_length=MAX_ITEMS)]


class Explain(BaseRequest):
    """Request the terms of an item's score."""

    item: Id


class Similar(Struct, forbid_unknown_fields=True):
    """Request the most similar items or users: give one of the two."""

    item: Id | None = None
    user: Id | None = None
    n: Count = 10
    show: Show = []


class NewEvent(Struct, forbid_unknown_fields=True):
    """An interaction of a user with an item. id: of the event; sent again, it counts once.

    event: its type, such as view, cart or buy; value: what it is worth, such as the revenue.
    """

    user: Id
    item: Id
    time: Time = None
    context: EventContext | None = None
    id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    event: Annotated[str, Meta(min_length=1, max_length=MAX_TYPE_LENGTH)] | None = None
    value: Annotated[float, Meta(ge=-MAX_VALUE, le=MAX_VALUE)] | None = None


class NewEvents(Struct, forbid_unknown_fields=True):
    """Events to store; the next answers take them into account."""

    events: Annotated[list[NewEvent], Meta(min_length=1, max_length=MAX_EVENTS)]


ItemColumns = Annotated[dict[Text, Value], Meta(min_length=1, max_length=MAX_COLUMNS)]


class ItemChanges(Struct, forbid_unknown_fields=True):
    """Changes of items. Each names its item as `item`; its other columns are set, null erases one.

    Columns that are not named stay as they are. `removed`: whether the item is in no answer.
    """

    items: Annotated[list[ItemColumns], Meta(min_length=1, max_length=MAX_ITEMS)]


class Term(Struct):
    """What a pair of a query and an item feature adds to a score.

    query: empty for what the item adds for any user.
    """

    query: str
    item: str
    value: float


class Ranked(Struct, omit_defaults=True):
    """An item of a list. terms: the summands of its score, largest first.

    columns: those that were asked for with `show`, as far as known.
    """

    item: Any
    score: float
    rank: int
    terms: list[Term] | None = None
    columns: dict[str, Any] | None = None


class Recommended(Struct, omit_defaults=True):
    """A list, best first. model: the id of the model that answered; arm: current or candidate.

    empty: why no item is left. unknown: parts of the request that the model does not know.
    """

    items: list[Ranked]
    model: str
    arm: str = ""
    empty: str = ""
    unknown: list[str] = []


class RecommendedBatch(Struct):
    """The answers, in the order of the requests."""

    answers: list[Recommended]


class ScoredItem(Struct):
    """An item with its score."""

    item: Any
    score: float


class Scores(Struct, omit_defaults=True):
    """Scores of the known items among those requested, in that order."""

    items: list[ScoredItem]
    model: str
    arm: str = ""
    unknown: list[str] = []


class Explanation(Struct, omit_defaults=True):
    """A score and the terms that add up to it, largest first."""

    item: Any
    score: float
    terms: list[Term]
    model: str
    arm: str = ""
    unknown: list[str] = []


class Neighbour(Struct, omit_defaults=True):
    """A similar item or user; columns: those of an item that were asked for."""

    id: Any
    similarity: float
    rank: int
    columns: dict[str, Any] | None = None


class Neighbours(Struct, omit_defaults=True):
    """The most similar items or users, best first. unknown: columns of `show` that none has."""

    similar: list[Neighbour]
    model: str
    unknown: list[str] = []


class Taken(Struct, omit_defaults=True):
    """The number of events stored, and the position of the last.

    unknown: parts of events that the model does not know, such as `events[0].item`.
    refunds: how many of the events are refunds, from which no model learns.
    """

    taken: int
    position: int
    unknown: list[str] = []
    refunds: int = 0


class ItemsTaken(Struct, omit_defaults=True):
    """The number of changes stored. new: items that the model does not know from training.

    unranked: new items that are in no list before the next `update`, since the model has learned
    no attributes of items. new_columns: those that no item had before.
    """

    taken: int
    new: int
    unranked: int
    new_columns: list[str] = []


class KeptEvent(Struct):
    """A stored event."""

    position: int
    user: Any
    item: Any
    time: str
    context: dict[str, Any] | None = None
    arm: str = ""
    model: str = ""
    event: str | None = None
    value: float | None = None


class KeptEvents(Struct):
    """Events after a position, oldest first; position: where to continue."""

    events: list[KeptEvent]
    position: int


class ContextColumn(Struct):
    """A context column, or an attribute of users.

    values: at most 200 known ones; count: the number of all.
    """

    name: str
    kind: str
    values: list[Any]
    count: int


class Refused(Struct):
    """Why and when a new model file was rejected."""

    why: str
    when: str


class IndexCard(Struct):
    """The index that answers. recall: the share of exact lists of 10 that it found when built.

    asked: users whose lists were compared; exact: whether it finds every list whole.
    """

    recall: float
    asked: int
    cells: int
    exact: bool


class ModelCard(Struct):
    """Properties of a model in service. refused: the last new file that was rejected.

    user_features: the attributes that requests may give. columns: of the catalogue, for rules;
    title, images: those with titles and with addresses of images.
    """

    model: str
    arm: str
    recipe: str
    options: dict[str, Any]
    users: int
    items: int
    factors: int | None
    context: list[ContextColumn]
    user_features: list[ContextColumn]
    knows_time: bool
    goes_by_history: bool
    checksum: str
    data: dict[str, Any] | None
    metrics: dict[str, float] | None
    saved: str
    loaded: str
    id_columns: list[str]
    explains: bool
    columns: list[str]
    refused: Refused | None = None
    index: IndexCard | None = None
    title: str | None = None
    images: str | None = None


class Cards(Struct):
    """The models in service, the current one first. rules: the names that requests may give."""

    models: list[ModelCard]
    fmpair: str
    events: bool
    rules: list[str]


class IdList(Struct, omit_defaults=True):
    """Ids with a prefix; count: the number of all; titles: of the items, if they have any."""

    ids: list[Any]
    count: int
    titles: list[str | None] | None = None

"""Which column plays which part."""

import pytest

from fmpair.data.columns.roles import find_column, find_roles
from fmpair.errors import DataError


@pytest.mark.parametrize(
    ("columns", "user", "item"),
    [
        (["user", "item"], "user", "item"),
        (["userId", "itemId"], "userId", "itemId"),
        (["USER_ID", "Item-ID", "x"], "USER_ID", "Item-ID"),
        (["customer", "product_id"], "customer", "product_id"),
        (["Article No.", "Customer #", "Customer No"], "Customer #", "Article No."),
        (["item_code", "account_number", "sku"], "account_number", "sku"),
    ],
)
def test_usual_names_are_recognised(columns, user, item):
    roles = find_roles(columns, {})
    assert (roles["user"], roles["item"]) == (user, item)


def test_a_given_name_wins_over_a_usual_one():
    assert find_column("user", ["user", "who"], "who") == "who"


def test_a_misspelt_column_gets_the_nearest_name():
    with pytest.raises(DataError, match=r"unknown column for user 'usr'\. Did you mean 'user'\?"):
        find_roles(["user", "item"], {"user": "usr"})


def test_a_missing_column_gets_the_nearest_name():
    with pytest.raises(DataError, match=r"no item column .*Is it 'itme'\? Then give item='itme'"):
        find_roles(["user", "itme"], {})


def test_one_column_cannot_play_two_parts():
    with pytest.raises(DataError, match=r"'user' cannot be both user and item: .* item='...'"):
        find_roles(["user", "item"], {"user": "user", "item": "user"})


def test_optional_parts_are_found_where_they_are():
    roles = find_roles(["user", "item", "stars", "cnt", "ts", "domain", "place"], {})
    assert roles["rating"] == "stars"
    assert roles["weight"] == "cnt"
    assert roles["timestamp"] == "ts"
    assert "place" not in roles.values()

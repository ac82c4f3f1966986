import numpy as np

from fmpair.testing import cold_items, day_and_night, two_tastes
from fmpair.testing.toys import left_out


def test_by_day_only_even_items_are_chosen_and_by_night_only_odd_ones():
    frame = day_and_night().frame()
    assert frame["user"].n_unique() == 40 and frame["item"].n_unique() == 20
    assert ((frame["item"] % 2 == 0) == (frame["time"] == "day")).all()
    assert set(frame["time"]) == {"day", "night"}


def test_day_and_night_leaves_every_user_half_of_the_items_unseen():
    assert (np.diff(day_and_night(users=7, items=12).seen.start) == 6).all()


def test_day_and_night_is_the_same_for_the_same_seed():
    assert day_and_night(seed=3).frame().equals(day_and_night(seed=3).frame())
    assert not day_and_night(seed=3).frame().equals(day_and_night(seed=4).frame())


def test_two_tastes_never_mix_and_each_user_lacks_one_item():
    frame = two_tastes().frame()
    for number in range(40):
        own = frame.filter(user=f"u{number}")["item"].to_list()
        lacking = {i for i in range(20) if i % 2 == number % 2} - set(own)
        assert lacking == {int(left_out(np.array(number)))}
        assert len(own) == 9 and all(i % 2 == number % 2 for i in own)


def test_cold_items_have_a_kind_but_no_event():
    data = cold_items()
    frame = data.frame()
    assert set(data.items.ids) == set(range(20))
    assert set(range(14, 20)).isdisjoint(frame["item"])
    assert set(frame["item"]) == set(range(14))
    kinds = dict(zip(data.items.ids, data.item_table["kind"]))
    assert all(kinds[i] == ("calm" if i % 2 == 0 else "loud") for i in range(20))


def test_each_group_of_cold_items_chooses_its_own_kind():
    frame = cold_items().frame()
    odd_user = frame["user"].str.slice(1).cast(int) % 2
    assert (odd_user == frame["item"] % 2).all()

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.config.document import parse_json, parse_yaml, read
from fmpair.errors import ConfigError, DataError

YAML = """\
name: one
data:
  set: ml-100k
models:
  - popularity
  - kind: fm-pair
    factors: 8
"""
TOML = """\
name = "one"

[data]
set = "ml-100k"

[[models]]
kind = "popularity"

[[models]]
kind = "fm-pair"
factors = 8
regularization = {user = 0.1}
[models.fields.age]
bins = 3
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def file(text, name="a.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        return name

    return file


def mistakes(path, *overrides):
    with pytest.raises(ConfigError) as caught:
        read(path, overrides)
    return list(caught.value.mistakes)


def test_every_key_has_its_line(write):
    document = read(write(YAML))
    lines = {path: document.origin(path).line for path in [
        ("name",), ("data", "set"), ("models", 0), ("models", 1), ("models", 1, "factors"),
    ]}  # fmt: skip
    assert list(lines.values()) == [1, 3, 5, 6, 7]
    assert document.origin(("models", 1, "nothing")).line == 6, "what is not there is near what is"


def test_toml_has_lines_too(write):
    document = read(write(TOML, "a.toml"))
    assert document.values["models"][1]["regularization"] == {"user": 0.1}
    lines = {path: document.origin(path).line for path in [
        ("data", "set"), ("models", 0, "kind"), ("models", 1), ("models", 1, "factors"),
        ("models", 1, "regularization", "user"), ("models", 1, "fields", "age", "bins"),
    ]}  # fmt: skip
    assert list(lines.values()) == [4, 7, 9, 11, 12, 14]


def test_json_has_lines_and_may_have_tabs(write):
    text = '{\n\t"name":\t"\\ud83d\\ude00",\n\t"models": [\n\t\t"popularity"]\n}'
    document = read(write(text, "a.json"))
    assert document.values == {"name": "😀", "models": ["popularity"]}
    assert (document.origin(("name",)).line, document.origin(("models", 0)).line) == (2, 4)


@given(
    st.dictionaries(
        st.text("abc_", min_size=1),
        st.recursive(
            st.none() | st.booleans() | st.integers(1 - 2**63, 2**63 - 1) | st.text("xyz 1:#-no"),
            lambda inner: st.lists(inner) | st.dictionaries(st.text("abc", min_size=1), inner),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_json_and_yaml_read_alike(values):
    text = json.dumps(values, indent=1)
    as_json, as_yaml = parse_json(text, "x"), parse_yaml(text, "x")
    assert as_json.values == as_yaml.values == values
    assert as_json.lines == as_yaml.lines
    for key in values:
        assert text.splitlines()[as_json.lines[(key,)] - 1].startswith(f' "{key}":')


def test_yaml_is_read_as_yaml_1_2(write):
    text = "a: no\nb: on\nc: 1e-3\nd: 010\ne: 2024-01-31\nf: ~\n"
    assert read(write(text)).values == {
        "a": "no", "b": "on", "c": 0.001, "d": 10, "e": "2024-01-31", "f": None,
    }  # fmt: skip


def test_anchors_and_merge_keys_work(write):
    document = read(write("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n"))
    assert document.values["b"] == {"x": 1, "y": 3}
    assert document.origin(("b", "x")).line == 1 and document.origin(("b", "y")).line == 4


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.yaml", "a: 1\nb: [1\n", "a.yaml:3: expected"),
        ("a.yaml", "a:\n    b: 1\n  c: 2\n", "a.yaml:3: the indentation of this line differs from"),
        ("a.yaml", "a:\n  - b\n - c\n", "a.yaml:3: the indentation of this line differs from"),
        ("a.yaml", "a:\n  b: 1\n    c: 2\n", "a.yaml:3: a key inside a value: align this line"),
        ("a.yaml", "a:\n  b: 1\n  - c\n", "a.yaml:3: a list item among keys"),
        ("a.yaml", "a:\n\tb: 1\n", "a.yaml:2: a tab at the start: indent with spaces"),
        ("a.yaml", "a: 1\nb: 2\na: 3\n", "a.yaml:3: duplicate key 'a', first in line 1"),
        ("a.yaml", "a: &a [*a]\n", "a.yaml:1: an alias refers to a value that contains it"),
        ("a.yaml", "a: 1\n---\nb: 2\n", "a.yaml:2: but found another document"),
        ("a.json", '{\n "a": 1,\n}', "a.json:3: "),
        ("a.json", '{\n "a": 1,\n "a": 2}', "a.json:3: duplicate key 'a', first in line 2"),
        ("a.toml", "a = 1\nb = = 2\n", "a.toml:2: Invalid value"),
        ("a.toml", "a = 1\na = 2\n", "a.toml:2: Cannot overwrite a value"),
    ],
)
def test_a_syntax_error_is_one_line_with_file_and_line(write, name, text, expected):
    found = mistakes(write(text, name))
    assert len(found) == 1 and found[0].startswith(expected) and "\n" not in found[0]


def test_a_file_of_another_kind_is_refused(write):
    with pytest.raises(DataError, match=r"its name must end in \.yaml, \.yml, \.json, \.toml"):
        read(write("a: 1", "a.ini"))
    with pytest.raises(DataError, match="Did you mean 'b"):
        write("a: 1", "b.yaml")
        read("bb.yaml")


def test_a_mapping_of_another_kind_is_not_mixed_with_the_one_it_replaces(write):
    write("split: {kind: folds, count: 4}\n", "root.yaml")
    same = read(write("extends: root.yaml\nsplit: {seed: 3}\n", "same.yaml"))
    assert same.values["split"] == {"kind": "folds", "count": 4, "seed": 3}
    other = read(write("extends: root.yaml\nsplit: {kind: holdout, test: 0.1}\n", "other.yaml"))
    assert other.values["split"] == {"kind": "holdout", "test": 0.1}


def test_a_file_goes_over_the_one_it_extends(write):
    write("run: {workers: 1, curve: 5}\nseeds: [0, 1]\n", "base/root.yaml")
    write("extends: root.yaml\nmetrics: [ndcg@10]\n", "base/middle.yaml")
    document = read(write("extends: base/middle.yaml\nseeds: [7]\nrun:\n  workers: 2\n"))
    assert document.values == {
        "run": {"workers": 2, "curve": 5}, "seeds": [7], "metrics": ["ndcg@10"],
    }  # fmt: skip
    places = {key: str(document.origin(key)) for key in [
        ("run", "workers"), ("run", "curve"), ("seeds", 0), ("metrics", 0),
    ]}  # fmt: skip
    assert list(places.values()) == [
        "a.yaml:4", "base/root.yaml:1", "a.yaml:2", "base/middle.yaml:2",
    ]  # fmt: skip


def test_a_file_named_in_a_base_is_looked_for_beside_the_base(write, tmp_path):
    write("data: {path: clicks.csv}\n", "base/root.yaml")
    document = read(write("extends: base/root.yaml\n"), ["data.users=u.csv"])
    assert document.resolve(("data", "path"), "clicks.csv") == str(tmp_path / "base/clicks.csv")
    assert document.resolve(("data", "users"), "u.csv") == str(tmp_path / "u.csv")


def test_mistakes_of_extending_name_the_right_file(write):
    write("name: x\nextends: a.yaml\n", "b.yaml")
    assert mistakes(write("extends: b.yaml\n")) == [
        "b.yaml:2: extends: files extend each other in a circle: a.yaml -> b.yaml -> a.yaml"
    ]
    assert mistakes(write("x: 1\nextends: bb.yaml\n", "wrong.yaml")) == [
        "wrong.yaml:2: extends: there is no file bb.yaml. Did you mean 'b.yaml'?"
    ]
    assert mistakes(write("extends: [b.yaml]\n", "e.yaml")) == [
        "e.yaml:1: extends: must be the name of a file, not ['b.yaml']"
    ]


def test_overrides_are_yaml_at_dotted_paths(write):
    overrides = ["run.workers=2", "models.1.factors={grid: [1, 2]}", "models.0.x=no", "name="]
    document = read(write(YAML), overrides)
    assert document.values["run"] == {"workers": 2}
    assert document.values["models"] == [
        {"kind": "popularity", "x": "no"}, {"kind": "fm-pair", "factors": {"grid": [1, 2]}},
    ]  # fmt: skip
    assert document.values["name"] is None
    assert str(document.origin(("models", 1, "factors", "grid"))) == "command line"
    assert str(document.origin(("models", 1, "kind"))) == "a.yaml:6"


def test_all_wrong_overrides_are_named_together(write):
    assert mistakes(write(YAML), "workers", "models.5.x=1", "models.1.factors.y=1", "a=[") == [
        "command line: an override is key=value, not 'workers'",
        "command line: models.5.x: '5' must be a number from 0 to 1",
        "command line: models.1.factors.y: 8 has no key 'y'",
        "command line: a: '[' is not a YAML value",
    ]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi")
)


def deep(depth):
    lists = "[" * depth + "]" * depth
    return {"a.yaml": f"a: {lists}", "a.json": f'{{"a": {lists}}}', "a.toml": f"a = {lists}"}


def test_aliases_that_stand_for_billions_of_values_are_refused(write):
    assert len(BOMB) < 500
    with pytest.raises(ConfigError, match=r"a\.yaml:\d: more than 20,000 values, counting"):
        read(write(BOMB, "a.yaml"))


def test_aliases_are_fine_where_they_save_writing(write):
    found = read(write("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n", "a.yaml"))
    assert found.values == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}


@pytest.mark.parametrize("name", ["a.yaml", "a.json", "a.toml"])
def test_what_is_nested_too_deep_is_refused(write, name):
    read(write(deep(30)[name], name))
    for depth in (60, 500, 5000, 50_000):
        with pytest.raises(ConfigError, match=rf"{name}:1: nested more than 40 levels deep"):
            read(write(deep(depth)[name], name))


def test_block_lists_and_dotted_keys_are_depth_too(write):
    with pytest.raises(ConfigError, match="nested more than 40 levels deep"):
        read(write("- " * 100 + "x", "a.yaml"))
    with pytest.raises(ConfigError, match="nested more than 40 levels deep"):
        read(write(".".join(["a"] * 2000) + " = 1", "a.toml"))
    with pytest.raises(ConfigError, match="nested more than 40 levels deep"):
        read(write("a: 1", "a.yaml"), [".".join(["a"] * 2000) + "=1"])


@pytest.mark.parametrize("name", ["a.yaml", "a.json", "a.toml"])
def test_a_file_as_long_as_a_book_is_no_experiment(write, name):
    with pytest.raises(ConfigError, match=r"has 200,001 characters, the limit is 200,000"):
        read(write("#" * 200_001, name))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "x: 1\n<<: 3", "a.yaml:2: << takes a mapping"),
        ("a.yaml", "x: !!float y", "a.yaml:1: 'y' is not a valid float"),
        ("a.yaml", "x: !!timestamp y", 'a.yaml:1: failed to construct timestamp from "y"'),
        ("a.yaml", "x: !!python/name:os.system", "a.yaml:1: could not determine a constructor"),
        ("a.yaml", "x: !!binary eA==", "a.yaml:1: values of type bytes are"),
        ("a.yaml", "a: 2\nx: 9223372036854775808", "a.yaml:2: a whole number must be at most"),
        ("a.json", '{"x":\n 9223372036854775808}', "a.json:1: a whole number must be at most"),
        ("a.toml", "y = 1\nx = 9223372036854775808", "a.toml:2: a whole number must be at most"),
        ("a.json", "9" * 5000, "a.json:1: Exceeds the limit"),
        ("a.json", '{"x": "a\\u0000b"}', r"a.json:1: 'a\x00b' contains an invalid character"),
        ("a.json", '{"x": "\\ud800"}', r"a.json:1: '\ud800' contains an invalid character"),
        ("a.toml", "x = 2024-13-45", "a.toml:1: "),
    ],
)
def test_a_value_that_nothing_can_hold_is_refused_with_its_line(write, name, text, said):
    with pytest.raises(ConfigError) as caught:
        read(write(text, name))
    assert str(caught.value).startswith(said)


def test_a_file_that_is_not_utf8_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_bytes("name: Zoë".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"a\.yaml: byte 8 is not UTF-8: save the file as UTF-8"):
        read("a.yaml")


def test_keys_after_any_number_of_blanks_are_found(write):
    found = read(write(" " * 100_000 + "x = 1\n", "a.toml"))
    assert found.values == {"x": 1} and found.origin(("x",)).line == 1


def test_a_chain_of_bases_has_an_end(write):
    for number in range(30):
        write(f"extends: b{number + 1}.yaml\n", f"b{number}.yaml")
    write("name: last\n", "b30.yaml")
    with pytest.raises(ConfigError, match="more than 20 files extend each other"):
        read("b0.yaml")
    assert read("b15.yaml").values == {"name": "last"}


def test_a_file_to_extend_is_not_taken_from_the_command_line(write):
    assert mistakes(write("x: 1\n"), "extends=b.yaml") == [
        "command line: extends: must be in the file itself"
    ]

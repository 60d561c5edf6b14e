"""The YAML loader: every mistake is one line with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, model_validator

from topologies.units import Rate, Share
from topologies.yamlspec import (
    Bool,
    FieldError,
    Float,
    Int,
    SpecError,
    SpecModel,
    Str,
    dotted,
    find_file,
    load_document,
    load_model,
    nearest,
    parse_model,
    parse_text,
    shown,
)


class Link(SpecModel):
    rate: Rate
    note: Str = ""


class Cut(SpecModel):
    do: Literal["cut"]
    link: Str


class Loss(SpecModel):
    do: Literal["loss"]
    link: Str
    loss: Share


class Model(SpecModel):
    name: Str
    n: Int = Field(default=2, ge=1, le=8)
    x: Float = 0.0
    on: Bool = True
    link: Link
    mode: Literal["ecmp", "structured"] = "ecmp"
    steps: tuple[Annotated[Cut | Loss, Field(discriminator="do")], ...] = ()
    extra: Link | None = None
    either: int | str = 0

    @model_validator(mode="after")
    def _seven(self) -> Model:
        if self.n == 7:
            raise FieldError(("link", "rate"), "seven {braces} is wrong")
        return self


GOOD = "name: a\nlink: {rate: 100 Mb/s}\n"


def problem(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        parse_model(text, Model, "f.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_good() -> None:
    model = parse_model(GOOD + "n: 0x3\nx: 1\nsteps: [{do: cut, link: l}]\n", Model)
    assert model.n == 3
    assert model.link.rate == 100_000_000
    assert model.steps[0].link == "l"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD + "modle: 3", "f.yaml:3: modle: unknown key; did you mean 'mode'?"),
        ("name: a\nlink:\n  rat: 1 b/s", "f.yaml:3: link.rat: unknown key; did you mean 'rate'?"),
        (GOOD + "extra:\n\n  rat: 3", "f.yaml:5: extra.rat: unknown key; did you mean 'rate'?"),
        (GOOD + "zzz: 3", "f.yaml:3: zzz: unknown key; use one of either, extra, link, mode"),
        ("n: 3\nlink: {rate: 1 b/s}", "f.yaml:1: name: required key is missing"),
        (GOOD + "n: 0", "f.yaml:3: n: must be at least 1, found 0"),
        (GOOD + "n: 9", "f.yaml:3: n: must be at most 8, found 9"),
        (GOOD + "n: true", "f.yaml:3: n: expected a whole number, found true"),
        (GOOD + "n: '2'", "f.yaml:3: n: expected a whole number, found '2'"),
        (GOOD + "n: 1.5", "f.yaml:3: n: expected a whole number, found 1.5"),
        (GOOD + "n:", "f.yaml:3: n: expected a whole number, found nothing"),
        (GOOD + "x: .inf", "f.yaml:3: x: expected a finite number, found inf"),
        (GOOD + "on: yes", "f.yaml:3: on: expected true or false, found 'yes'"),
        (GOOD + "n: 7", "f.yaml:2: link.rate: seven {braces} is wrong"),
        ("name: 3\nlink: {rate: 1 b/s}", "f.yaml:1: name: expected a text"),
        ("name: a\nlink: 3", "f.yaml:2: link: expected a mapping, found 3"),
        (GOOD + "mode: ecpm", "f.yaml:3: mode: 'ecpm' is not known; did you mean 'ecmp'?"),
        (GOOD + "mode: zzz", "f.yaml:3: mode: 'zzz' is not known; use one of ecmp, structured"),
        (GOOD + "link: {}", "f.yaml:3: link: key given twice (first on line 2)"),
        (GOOD + "steps: 3", "f.yaml:3: steps: expected a list, found 3"),
        (GOOD + "steps:\n- link: a", "f.yaml:4: steps[0]: the key 'do' is missing"),
        (
            GOOD + "steps:\n- {do: cut, link: a}\n- {do: los, link: a}",
            "f.yaml:5: steps[1]: do 'los' is not known; did you mean 'loss'?",
        ),
        (
            GOOD + "steps:\n- do: cut\n  lnk: a",
            "f.yaml:5: steps[0].lnk: unknown key; did you mean 'link'?",
        ),
        (
            GOOD + "steps:\n- do: loss\n  link: a\n  loss: 2",
            "f.yaml:6: steps[0].loss: 2 is outside 0 % to 100 % (0 to 1)",
        ),
        (GOOD + "either: []", "f.yaml:3: either: "),
        ("a: [", "f.yaml:1: YAML syntax: "),
        ("a:\n\t- b", "f.yaml:2: YAML syntax: "),
        ("a: 1\n---\nb: 2", "f.yaml:2: YAML syntax: "),
        ("a: \x00", "f.yaml: YAML syntax: unacceptable character"),
        ("", "f.yaml: the file is empty"),
        ("# only a comment\n", "f.yaml: the file is empty"),
        ("\n[1]", "f.yaml:2: expected a mapping of keys (name, n, x, on, ...) at the top"),
        ("name: &a [*a]", "f.yaml:1: name[0]: this alias contains itself"),
        ("name: *nope", "f.yaml:1: YAML syntax: found undefined alias"),
        ("name: !!python/object:os.system x", "f.yaml:1: name: tag '"),
        ("name: !!set {a, b}", "f.yaml:1: name: tag '"),
        ("name: a\n<<: {n: 1}", "f.yaml:2: merge keys (<<) are not supported"),
        ("? [a]\n: b", "f.yaml:1: a key must be a single word"),
        ("name: " + "9" * 500, "f.yaml:1: name: the number is too long (500 characters)"),
        ("[" * 5000, "f.yaml: nested deeper than 64 levels"),
        ("[" * 100 + "]" * 100, "f.yaml:1: [0][0]: nested deeper than 64 levels"),
    ],
)
def test_one_line_with_place(text: str, expected: str) -> None:
    assert problem(text).startswith(expected)


def test_alias_bomb_is_cut_off() -> None:
    text = "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
    for this, before in zip("bcdefghi", "abcdefgh", strict=True):
        text += f"{this}: &{this} [{','.join(f'*{before}' for _ in range(10))}]\n"
    assert "more than 50000 values" in problem(text)


def test_aliases_that_stay_small_work() -> None:
    model = parse_model("name: a\nlink: &l {rate: 1 Mb/s}\nextra: *l\n", Model)
    assert model.extra == model.link


def test_error_in_alias_names_the_line_it_is_written_on() -> None:
    assert problem("extra: &l {note: a,\n  rat: 1}\nname: a\nlink: *l\n").startswith("f.yaml:2: ")


def test_misspelt_key_is_told_before_the_key_missing_for_it() -> None:
    with pytest.raises(SpecError) as caught:
        parse_model("nam: a\nlink: {rate: 1 b/s}", Model, "f.yaml")
    assert str(caught.value) == "f.yaml:1: nam: unknown key; did you mean 'name'?"
    assert [str(e) for e in caught.value.others] == ["f.yaml:1: name: required key is missing"]


def test_attributes() -> None:
    with pytest.raises(SpecError) as caught:
        parse_model("name: a\nlink:\n  rate: 3", Model, "f.yaml")
    error = caught.value
    assert (error.file, error.line, error.field) == ("f.yaml", 3, "link.rate")


def test_files(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    assert load_model(tmp_path / "good.yaml", Model).name == "a"
    (tmp_path / "latin.yaml").write_bytes(b"name: a\nx: \xe9\n")
    (tmp_path / "huge.yaml").write_bytes(b"#" * (1 << 21))
    for name, expected in [
        ("godo.yaml", "no such file; did you mean 'good.yaml'?"),
        ("latin.yaml", "latin.yaml:2: not UTF-8 text"),
        ("huge.yaml", "larger than 1 MiB"),
        (".", "is a folder"),
        ("nowhere/x.yaml", "no such file"),
    ]:
        with pytest.raises(SpecError) as caught:
            load_model(tmp_path / name, Model)
        assert expected in str(caught.value)


def test_document_keeps_lines_for_later_checks(tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(GOOD + "steps:\n  - do: cut\n    link: nope\n")
    _, doc = load_document(file, Model)
    error = doc.error(("steps", 0, "link"), "no such link")
    assert str(error) == f"{file}:5: steps[0].link: no such link"
    assert doc.line(("steps", 7, "x")) == 3


def test_find_file(tmp_path: Path) -> None:
    (tmp_path / "two-plane.yaml").write_text(GOOD)
    assert find_file("two-plane", tmp_path, "fabric") == tmp_path / "two-plane.yaml"
    assert find_file("./x.yaml", tmp_path, "fabric") == Path("x.yaml")
    with pytest.raises(SpecError, match="no such fabric; did you mean 'two-plane'"):
        find_file("two-plan", tmp_path, "fabric")


def test_nearest_ignores_case() -> None:
    assert nearest("RATE", ["rate", "delay"]) == "rate"
    assert nearest("qqqq", ["rate", "delay"]) is None


def test_values_are_shown_short_and_printable() -> None:
    assert shown("a\x1b[31m\n") == r"'a\x1b[31m\n'"
    assert len(shown("x" * 1000)) <= 48
    assert shown(10**400) == "a huge number"
    assert dotted(("a", 0, "b\x1b")) == "a[0].b?"


def check_error(action: Callable[[], object]) -> None:
    """Whatever happens, nothing but a SpecError with one line gets out."""
    told = ""
    try:
        action()
    except SpecError as error:
        told = str(error)
    assert "\n" not in told
    assert told.startswith("f") or not told


@given(st.text(max_size=200))
def test_any_text_is_a_document_or_a_spec_error(text: str) -> None:
    check_error(lambda: parse_text(text, "f"))


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "link", "rate", "steps", "do", "loss", "either", "n"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_values)
def test_any_data_is_a_model_or_a_spec_error(data: object) -> None:
    check_error(lambda: parse_model(json.dumps(data), Model, "f"))

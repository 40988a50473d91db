from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdgbench.errors import UserError
from sdgbench.spec import parameters
from sdgbench.spec.parameters import param


@dataclass(frozen=True)
class Some:
    count: int = param(3, "how many")
    rate: float = param(0.5, "how fast")
    on: bool = param(True, "whether")
    kind: Literal["a", "b"] = param("a", "which")
    sizes: tuple[int, ...] = param((1, 2), "how big")
    most: int | None = param(None, "at most")
    pair: tuple[int, float] = param((1, 2.0), "two of them")

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("count must not be below 0")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "7", 7),
        ("count", "1_000", 1000),
        ("rate", "1e-4", 1e-4),
        ("rate", "2", 2.0),
        ("on", "false", False),
        ("on", "yes", True),
        ("kind", "b", "b"),
        ("sizes", "3,4,5", (3, 4, 5)),
        ("sizes", "7", (7,)),
        ("most", "none", None),
        ("most", "9", 9),
        ("pair", "3,0.5", (3, 0.5)),
    ],
)
def test_values_are_read_by_their_type(name, text, value):
    found = parameters.parse_field("some", parameters.fields(Some)[name], text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("count", "x"),
        ("count", "1.5"),
        ("rate", "nan"),
        ("rate", "inf"),
        ("rate", "fast"),
        ("on", "maybe"),
        ("kind", "c"),
        ("sizes", "1,x"),
        ("most", "few"),
        ("pair", "1"),
    ],
)
def test_values_that_do_not_fit_are_explained(name, text):
    with pytest.raises(UserError, match=rf'"{text}" does not fit some\.{name}, which takes: '):
        parameters.parse_field("some", parameters.fields(Some)[name], text)


@pytest.mark.parametrize(
    ("value", "kind", "fitting"),
    [
        (1, float, True),
        (True, float, False),
        (1.0, int, False),
        (True, int, False),
        ((1, 2), tuple[int, ...], True),
        ([1, 2], tuple[int, int], True),
        ((1,), tuple[int, int], False),
        (None, int | None, True),
        ("a", int | None, False),
        ("a", str, True),
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        (True, bool, True),
        ("a", tuple[str, ...], False),
    ],
)
def test_values_fit_their_types(value, kind, fitting):
    assert parameters.fits(value, kind) is fitting


def test_a_class_may_refuse_a_value():
    with pytest.raises(UserError, match="count must not be below 0"):
        parameters.build(Some, {"count": -1})


def test_fields_carry_their_documentation():
    field = parameters.fields(Some)["kind"]
    assert (field.doc, field.type_name, field.default) == ("which", "a | b", "a")
    assert parameters.fields(Some)["most"].type_name == "integer | none"


@given(
    st.builds(
        Some,
        count=st.integers(0, 10**6),
        rate=st.floats(-1e6, 1e6),
        on=st.booleans(),
        sizes=st.lists(st.integers(), min_size=1).map(tuple),
    )
)
def test_what_is_shown_can_be_typed_again(some):
    for name, field in parameters.fields(Some).items():
        value = getattr(some, name)
        again = parameters.parse_field("some", field, parameters.show(value))
        assert (
            again == pytest.approx(value, rel=1e-5) if isinstance(value, float) else again == value
        )


def test_plain_values_survive_json():
    assert parameters.as_plain(Some())["sizes"] == [1, 2]

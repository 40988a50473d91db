"""Ranges of a search: drawn values follow the stated distribution, bad ranges are refused."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import pytest
from scipy import stats

from sdgbench.errors import UserError
from sdgbench.spec import parameters, search
from sdgbench.spec.parameters import param
from sdgbench.spec.search import Around, Integers, LogUniform, OneOf, Uniform
from sdgbench.tuning.plan import draw

DRAWS = 2000


@dataclass(frozen=True)
class Some:
    rate: float = param(0.5, "how fast", search=Uniform(0, 1))
    count: int = param(3, "how many")
    kind: Literal["a", "b"] = param("a", "which")
    sizes: tuple[int, ...] = param((1, 2), "how big")


def drawn(values):
    return [draw({"key": values}, 7, number)["key"] for number in range(DRAWS)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (Uniform(-2, 5), stats.uniform(-2, 7)),
        (LogUniform(1e-4, 1e-1), stats.loguniform(1e-4, 1e-1)),
        (Around(10).around(0.3), stats.loguniform(0.03, 3)),
    ],
    ids=("uniform", "log", "around"),
)
def test_numbers_follow_their_distribution(values, expected):
    sample = drawn(values)
    assert stats.kstest(sample, expected.cdf).pvalue > 0.01
    assert values.low <= min(sample) <= max(sample) <= values.high


@pytest.mark.parametrize("values", [Integers(2, 6), OneOf("a", "b", "c", "d", "e")], ids=str)
def test_whole_numbers_and_choices_are_equally_likely(values):
    counts = Counter(drawn(values))
    assert set(counts) == ({2, 3, 4, 5, 6} if isinstance(values, Integers) else set("abcde"))
    assert stats.chisquare(list(counts.values())).pvalue > 0.01


def test_numbers_have_three_digits_and_stay_in_the_range():
    assert Uniform(0, 1).at(0.123456) == 0.123
    assert LogUniform(1.23456, 9.87654).at(0.0) == 1.23456
    assert LogUniform(1.23456, 9.87654).at(math.nextafter(1, 0)) == 9.87654


def test_a_value_depends_on_seed_trial_and_key_alone():
    one, two = {"a": Uniform(0, 1)}, {"a": Uniform(0, 1), "b": Uniform(0, 1)}
    assert draw(one, 0, 3)["a"] == draw(two, 0, 3)["a"] != draw(two, 0, 3)["b"]
    assert len({draw(one, seed, number)["a"] for seed in range(3) for number in range(3)}) == 9


@pytest.mark.parametrize(
    ("key", "text", "values"),
    [
        ("rate", "log:0.1:10", LogUniform(0.1, 10)),
        ("rate", "uniform:0:1", Uniform(0, 1)),
        ("rate", "around:3", Around(3)),
        ("count", "int:1:5", Integers(1, 5)),
        ("kind", "choice:a:b", OneOf("a", "b")),
        ("sizes", "choice:1,2:3", OneOf((1, 2), (3,))),
    ],
)
def test_a_range_is_read_and_written(key, text, values):
    field = parameters.fields(Some)[key]
    assert search.parse(key, text, field) == values
    assert str(values) == text


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("rate", "log:10:0.1", "is empty: write the smaller bound first"),
        ("rate", "uniform:1:1", "is empty"),
        ("rate", "log:0:1", "needs bounds above 0"),
        ("rate", "log:a:b", "bounds are no numbers"),
        ("rate", "uniform:0:inf", "bounds are no numbers"),
        ("rate", "0.1:10", "is not a range of rate. Write log:LOW:HIGH"),
        ("rate", "log:1", "is not a range of rate"),
        ("rate", "around:1", "is empty: its factor must be above 1"),
        ("count", "int:5:1", "is empty"),
        ("kind", "choice:a", "needs two values or more"),
        ("kind", "choice:a:a", "each of them once"),
        ("kind", "choice:a:c", '"c" does not fit kind.kind'),
    ],
)
def test_a_bad_range_is_refused(key, text, message):
    with pytest.raises(UserError) as refused:
        search.parse(key, text, parameters.fields(Some)[key])
    assert message in str(refused.value)


def test_a_range_must_fit_its_setting():
    field = parameters.fields(Some)["count"]
    search.check_fits("count", field, Integers(1, 5))
    with pytest.raises(UserError, match=r"which does not fit count: it takes integer"):
        search.check_fits("count", field, Uniform(1, 5))


def test_a_declared_range_is_part_of_the_field():
    fields = parameters.fields(Some)
    assert fields["rate"].search == Uniform(0, 1)
    assert fields["count"].search is None


@pytest.mark.parametrize("value", [0, 0.0, None, -1.0, True, "text"])
def test_nothing_is_around_what_is_no_positive_number(value):
    assert Around(10).around(value) is None

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from sdgbench.leaderboard import statistics

SCORES = st.floats(-100, 100).map(lambda value: round(value, 6))
SAMPLES = st.lists(SCORES, min_size=2, max_size=12)
PAIRS = st.lists(st.tuples(SCORES, SCORES), min_size=2, max_size=10)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_quantiles_of_student_against_scipy(level):
    for freedom in (*range(1, 60), 99, 100, 999, 1000):
        # By the tail beyond it: the quantiles of SciPy before 1.15 have errors of up to 5e-9.
        tail = scipy_stats.t.sf(statistics.t_quantile(level, freedom), freedom)
        assert tail == pytest.approx((1 - level) / 2, rel=5e-12), freedom


@given(SAMPLES)
def test_intervals_against_scipy(values):
    mean, half = statistics.mean_interval(values)
    assert mean == pytest.approx(np.mean(values), abs=1e-9)
    if np.std(values) > 1e-6:
        low, high = scipy_stats.t.interval(
            0.95, len(values) - 1, np.mean(values), scipy_stats.sem(values)
        )
        assert (mean - half, mean + half) == pytest.approx((low, high), abs=1e-6)


def test_an_interval_by_hand():
    # mean 2, standard deviation 1, t = 4.302653 for two degrees of freedom
    assert statistics.mean_interval([1.0, 2.0, 3.0]) == (
        2.0,
        pytest.approx(4.302653 / math.sqrt(3)),
    )


def test_one_seed_has_no_interval():
    assert statistics.mean_interval([3.0]) == (3.0, None)
    gain = statistics.paired_gain({0: 5.0}, {0: 3.0, 1: 9.0})
    assert (gain.n, gain.mean, gain.half, gain.p) == (1, 2.0, None, None)
    assert not gain.is_tie  # one pair cannot tell


def test_a_gain_by_hand():
    gain = statistics.paired_gain({0: 51.0, 1: 53.0, 2: 55.0, 7: 99.0}, {2: 52.0, 1: 51.0, 0: 50.0})
    assert gain.n == 3
    assert gain.mean == pytest.approx(2.0)  # 1, 2 and 3; the seed that is not shared is left out
    assert gain.half == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert gain.is_tie  # 2.0 ± 2.48
    assert statistics.paired_gain({0: 1.0}, {1: 1.0}) is None


def test_a_gain_is_a_tie_only_if_its_interval_covers_zero():
    clear = statistics.paired_gain({0: 2.0, 1: 2.1, 2: 1.9}, dict.fromkeys(range(3), 0.0))
    assert clear.mean - clear.half > 0
    assert not clear.is_tie
    assert statistics.paired_gain({0: 1.0, 1: -1.0}, {0: 0.0, 1: 0.0}).is_tie
    assert statistics.paired_gain({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}).is_tie  # no difference at all


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([1.0, 2.0, 3.0], 2 / 8),  # only all plus and all minus are as far
        ([1.0, 2.0, -3.0], 8 / 8),  # the mean is 0: every pattern is as far
        ([1.0, 1.0, -1.0], 8 / 8),  # |sum| is 1 or 3
        ([3.0, 1.0, -1.0], 6 / 8),  # |sums| 3 5 1 3, each twice
        ([1.0] * 6, 2 / 64),
        ([0.0, 0.0], 1.0),
        ([0.1] * 10, 2 / 1024),
    ],
)
def test_sign_flips_by_hand(differences, expected):
    assert statistics.sign_flip_p(differences) == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(SCORES, min_size=2, max_size=8))
def test_sign_flips_against_plain_enumeration(differences):
    found = abs(math.fsum(differences))
    patterns = list(itertools.product((1, -1), repeat=len(differences)))
    tolerance = 1e-9 * math.fsum(map(abs, differences))
    expected = sum(
        abs(math.fsum(s * d for s, d in zip(signs, differences, strict=True))) >= found - tolerance
        for signs in patterns
    )
    assert statistics.sign_flip_p(differences) == expected / len(patterns)


def test_sign_flips_against_scipy():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.normal(0.5, 1, rng.integers(3, 10))
        expected = scipy_stats.permutation_test(
            (values,), np.mean, permutation_type="samples", n_resamples=np.inf
        ).pvalue
        assert statistics.sign_flip_p(list(values)) == pytest.approx(expected, abs=1e-12)


def test_many_seeds_are_sampled_always_alike_and_close_to_the_truth(monkeypatch):
    values = list(np.random.default_rng(1).normal(0.4, 1, 14))
    exact = statistics.sign_flip_p(values)
    monkeypatch.setattr(statistics, "MOST_EXACT", 10)
    sampled = statistics.sign_flip_p(values)
    assert sampled == statistics.sign_flip_p(values[::-1])
    assert sampled == pytest.approx(exact, abs=5 * math.sqrt(exact / statistics.DRAWS))
    assert sampled != exact
    gain = statistics.paired_gain(dict(enumerate(values)), dict.fromkeys(range(14), 0.0))
    assert not gain.exact


def test_how_many_seeds_a_small_p_needs():
    assert statistics.FEWEST_SEEDS == 6
    assert statistics.smallest_p(6) == 2 / 64 < 0.05 <= statistics.smallest_p(5)
    five, six = ({seed: 1.0 + seed / 100 for seed in range(n)} for n in (5, 6))
    nothing = dict.fromkeys(range(6), 0.0)
    assert statistics.paired_gain(five, nothing).p is None
    assert statistics.paired_gain(six, nothing).p == statistics.smallest_p(6)


def test_holm_by_hand():
    # sorted: 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1, each at least the one before
    found = statistics.holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert found == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert list(found) == ["a", "b", "c", "d"]
    assert statistics.holm({"a": 0.7, "b": 0.9}) == {"a": 1.0, "b": 1.0}
    assert statistics.holm({}) == {}


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(values):
    named = {str(position): value for position, value in enumerate(values)}
    found = statistics.holm(named)
    for name, value in named.items():
        assert value <= found[name] <= min(1.0, len(values) * value)
    ordered = sorted(named, key=named.__getitem__)
    assert sorted(found.values()) == [found[name] for name in ordered]


@settings(deadline=None)
@given(PAIRS, st.randoms())
def test_the_order_of_seeds_changes_nothing(pairs, shuffler):
    order = list(range(len(pairs)))
    shuffler.shuffle(order)
    before = statistics.paired_gain(*({s: pair[i] for s, pair in enumerate(pairs)} for i in (0, 1)))
    after = statistics.paired_gain(*({s: pairs[s][i] for s in order} for i in (0, 1)))
    assert before == after
    values = [pair[0] for pair in pairs]
    mean, half = statistics.mean_interval([values[seed] for seed in order])
    assert (mean, half) == pytest.approx(statistics.mean_interval(values), abs=1e-9)
    differences = [a - b for a, b in pairs]
    assert statistics.sign_flip_p([differences[seed] for seed in order]) == statistics.sign_flip_p(
        differences
    )


@settings(deadline=None)
@given(PAIRS, SCORES)
def test_a_constant_for_all_methods_changes_no_gain(pairs, constant):
    ours, theirs = ({seed: pair[i] for seed, pair in enumerate(pairs)} for i in (0, 1))
    before = statistics.paired_gain(ours, theirs)
    after = statistics.paired_gain(
        *({s: v + constant for s, v in x.items()} for x in (ours, theirs))
    )
    assert after.mean == pytest.approx(before.mean, abs=1e-9)
    assert after.half == pytest.approx(before.half, abs=1e-6)

import numpy as np
import pytest
from corruptions import reference
from corruptions.samples import photos
from scipy import stats

from sdgbench.corruptions import blur, digital, noise, rng, weather
from sdgbench.corruptions.frost import FrostOverlays
from sdgbench.corruptions.generator import corrupt
from sdgbench.corruptions.names import SEVERITIES

COUNT = 200


@pytest.fixture
def draws():
    return rng.Draws(0, "fog", 3, np.arange(COUNT))


def test_bits_are_fair_and_independent(draws):
    bits = draws.bits(500)
    assert len(np.unique(bits)) == bits.size
    ones = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").reshape(-1, 64)
    spread = 0.5 / np.sqrt(len(ones))
    assert np.abs(ones.mean(axis=0) - 0.5).max() < 5 * spread
    related = np.corrcoef(ones[:, :].T) - np.eye(64)
    assert np.abs(related).max() < 6 / np.sqrt(len(ones))


def test_uniform(draws):
    values = draws.uniform((50, 40), -3, 5)
    assert values.shape == (COUNT, 50, 40)
    assert values.min() > -3
    assert values.max() < 5
    assert stats.kstest(values.ravel(), stats.uniform(-3, 8).cdf).pvalue > 1e-3
    assert draws.uniform().shape == (COUNT,)


def test_normal(draws):
    values = draws.normal((49, 41), 0.3, 2.0)
    assert values.shape == (COUNT, 49, 41)
    assert stats.kstest(values.ravel(), stats.norm(0.3, 2.0).cdf).pvalue > 1e-3
    assert np.abs(values - 0.3).max() < 2 * 7
    # The two numbers of a pair (Box-Muller) are independent, also in size.
    flat = values.reshape(COUNT, -1)[:, :-1]
    first, second = np.split(flat - 0.3, 2, axis=1)
    for one, other in ((first, second), (first**2, second**2)):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(first.size)


def test_images_streams_seeds_names_and_severities_are_independent():
    def drawn(seed=0, name="fog", severity=3, first=0, stream=0):
        indices = np.arange(first, first + 20)
        return rng.Draws(seed, name, severity, indices).uniform((1000,), stream=stream).ravel()

    series = [
        drawn(),
        drawn(first=1),
        drawn(first=20),
        drawn(first=10**9),
        drawn(stream=1),
        drawn(seed=1),
        drawn(name="snow"),
        drawn(severity=4),
    ]
    related = np.corrcoef(series) - np.eye(len(series))
    assert np.abs(related).max() < 5 / np.sqrt(20_000)
    rows = rng.Draws(0, "fog", 3, np.arange(60)).uniform((2000,))
    assert np.abs(np.corrcoef(rows) - np.eye(60)).max() < 5.5 / np.sqrt(2000)


def test_a_part_draws_the_same(draws):
    some_images = draws[50:60]
    assert len(some_images) == 10
    assert np.array_equal(some_images.words(7), draws.words(7)[50:60])
    assert np.array_equal(draws.words(7), draws.words(9)[:, :7])
    assert np.array_equal(draws.octets(5), draws.octets(16)[:, :5])


# Noise: what a value becomes is a row of a matrix.

LEVELS = (0, 1, 17, 128, 200, 254, 255)
POINTS = 40_000
QUANTILES = (np.arange(POINTS) + 0.5) / POINTS


def shares(values):
    return np.bincount(values.ravel(), minlength=256) / values.size


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", ["gaussian_noise", "speckle_noise", "shot_noise"])
def test_noise_matrices_against_the_reference(name, severity):
    """Feed the reference with evenly spaced quantiles: its results must have the same shares."""
    constants, build = {
        "gaussian_noise": (reference.SIGMA_GAUSSIAN_NOISE, noise.gaussian_matrix),
        "speckle_noise": (reference.SPECKLE, noise.speckle_matrix),
        "shot_noise": (reference.PHOTONS, noise.shot_matrix),
    }[name]
    matrix = build(constants[severity - 1])
    for level in LEVELS:
        values = np.full(POINTS, level, np.uint8)
        if name == "shot_noise":
            corrupted = reference.shot_noise(
                values, severity, lambda mean: stats.poisson.ppf(QUANTILES, mean)
            )
        else:
            corrupted = getattr(reference, name)(values, severity, stats.norm.ppf(QUANTILES))
        assert np.abs(shares(corrupted) - matrix[level]).max() < 2.5 / POINTS


@pytest.mark.parametrize("severity", SEVERITIES)
def test_impulse_matrix_against_the_reference(severity):
    matrix = noise.impulse_matrix(reference.IMPULSE[severity - 1])
    for level in LEVELS:
        observed = shares(
            reference.impulse_noise(np.full((400, 400), level, np.uint8), severity, 1)
        )
        assert np.abs(observed - matrix[level]).max() < 5 * np.sqrt(0.07 / 160_000)
        assert np.array_equal(observed > 0, matrix[level] > 0)


@pytest.mark.parametrize(
    "matrix",
    [
        noise.gaussian_matrix(0.04),
        noise.speckle_matrix(0.2),
        noise.shot_matrix(50),
        noise.shot_matrix(500),
        noise.impulse_matrix(0.01),
    ],
)
def test_alias_tables_hold_their_matrices(matrix):
    assert np.allclose(matrix.sum(axis=1), 1, atol=1e-12)
    table = noise.alias_table(matrix)
    stays = (table >> 8) / 2**24
    held = stays / 256
    rows = np.arange(256)[:, None].repeat(256, axis=1)
    np.add.at(held, (rows, table & 255), (1 - stays) / 256)
    assert np.abs(held - matrix).max() < 1e-7


@pytest.mark.parametrize("name", ["gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"])
def test_noise_has_its_distribution_and_is_independent(name):
    entry = noise.CORRUPTIONS[name]
    for level in (30, 128, 250):
        images = np.full((100, 32, 32, 3), level, np.uint8)
        corrupted = corrupt(images, name, 5)
        expected = entry.apply.keywords["matrix"](entry.levels[4])[level] * corrupted.size
        observed = shares(corrupted) * corrupted.size
        often = expected > 10
        chi = ((observed - expected)[often] ** 2 / expected[often]).sum()
        assert stats.chi2(often.sum() - 1).sf(chi) > 1e-4
        centred = corrupted.astype(float) - corrupted.mean()
        for one, other in (
            (centred[..., 0], centred[..., 1]),
            (centred[:, 1:], centred[:, :-1]),
            (centred[:, :, 1:], centred[:, :, :-1]),
            (centred[1:], centred[:-1]),
        ):
            related = np.corrcoef(one.ravel(), other.ravel())[0, 1]
            assert abs(related) < 5 / np.sqrt(one.size)


# What the other corruptions draw.


@pytest.fixture
def captured(monkeypatch):
    def run(module, function, name, severity, position):
        taken = []
        original = getattr(module, function)

        def watched(*arguments):
            taken.append(arguments[position])
            return original(*arguments)

        monkeypatch.setattr(module, function, watched)
        corrupt(photos(1).repeat(COUNT, axis=0), name, severity)
        return taken

    return run


def assert_uniform(values, low, high):
    assert low <= values.min()
    assert values.max() <= high
    assert stats.kstest(np.ravel(values), stats.uniform(low, high - low).cdf).pvalue > 1e-3


def test_angles(captured):
    assert_uniform(np.concatenate(captured(blur, "motion", "motion_blur", 3, 3)), -45, 45)
    assert_uniform(np.concatenate(captured(weather, "motion", "snow", 3, 3)), -135, -45)


def test_steps_of_glass(captured):
    turns = captured(blur, "glass", "glass_blur", 5, 2)
    first, second = (np.concatenate(each) for each in zip(*turns, strict=True))
    steps = np.stack([first & 1, first >> 1 & 1, second & 1, second >> 1 & 1]).reshape(4, -1)
    bound = 5 / np.sqrt(steps.shape[1])
    assert np.abs(steps.mean(axis=1) - 0.5).max() < bound
    assert np.abs(np.corrcoef(steps) - np.eye(4)).max() < bound


def test_noise_of_fog_and_elastic(captured):
    assert_uniform(np.concatenate(captured(weather, "plasma", "fog", 3, 0)), -1, 1)
    assert_uniform(
        np.concatenate(captured(digital, "elastic", "elastic_transform", 3, 1)), -1.92, 1.92
    )
    fields = np.concatenate(captured(digital, "elastic", "elastic_transform", 4, 2))
    assert_uniform(fields, -1, 1)
    across, down = fields[:, 0].ravel(), fields[:, 1].ravel()
    assert abs(np.corrcoef(across, down)[0, 1]) < 5 / np.sqrt(across.size)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_noise_of_snow(captured, severity):
    mean, std = reference.SNOW[severity - 1][:2]
    layers = np.concatenate(captured(weather, "flakes", "snow", severity, 0))
    assert stats.kstest(layers.ravel(), stats.norm(mean, std).cdf).pvalue > 1e-3


def test_choice_of_frost(captured):
    assert_uniform(np.concatenate(captured(FrostOverlays, "crops", "frost", 3, 3)), 0, 1)

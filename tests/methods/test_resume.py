"""Methods with several phases, stopped after every single step."""

import pytest
from helpers import assert_same_weights, make, trainer

from sdgbench import registry
from sdgbench.errors import Interrupted
from sdgbench.training import checkpoint

CASES = {
    "mada": {"T_min": 2, "T_adv": 2, "wae_epochs": 1, "ascent_batch": 7},
    "mada/mmd": {
        "T_min": 2,
        "T_adv": 1,
        "wae_epochs": 1,
        "wae_prior": "mmd",
        "K": 2,
        "meta_loss": "per-domain",
    },
    "augmix": {},
    "pro-randconv": {},
    "trivialaugment": {},
    "randaugment": {},
    "randconv": {},
    "rc-img": {},
    "gud": {"K": 3, "T_min": 2, "T_adv": 2, "ascent_batch": 11},
    "gud-ensemble": {"K": 2, "T_min": 2, "T_adv": 1, "members": 3, "ascent_batch": 16},
    "me-ada": {"K": 2, "T_min": 2, "T_adv": 2, "ascent_batch": 11},
    "advst": {"domains": 2, "ascent_steps": 2, "ascent_batch": 16},
    "advst/compat": {"domains": 1, "ascent_steps": 2, "ascent_batch": 16, "compat": True},
    "alt": {"warmup": 0.25, "ascent_steps": 2},
    "l2d": {"kernel_sizes": (3, 5)},
    "mixstyle": {},
    "dsu": {},
}


def everything(method):
    return {
        f"{name}.{key}": value.clone()
        for name, module in checkpoint.modules(method).items()
        for key, value in module.state_dict().items()
    }


@pytest.mark.parametrize("case", CASES)
def test_resume_inside_every_phase_is_bit_exact(case, tmp_path):
    cls = registry.get("method", case.split("/")[0]).load()
    params = cls.Params(**CASES[case])
    uninterrupted = make(cls, tmp_path / "a", params=params)
    trainer(uninterrupted, tmp_path / "a").run()
    stops = 0
    while True:
        method = make(cls, tmp_path / "b", params=params)
        once = iter([False])  # one step, then stop after the next
        try:
            trainer(method, tmp_path / "b", should_stop=lambda once=once: next(once, True)).run()
            break
        except Interrupted:
            stops += 1
    assert stops >= sum(phase.steps for phase in method.plan()) // 2 - 1
    assert_same_weights(everything(uninterrupted), everything(method))
    for first, second in zip(uninterrupted.pool.files, method.pool.files, strict=True):
        assert first.exists() == second.exists()
        assert not first.exists() or first.read_bytes() == second.read_bytes()

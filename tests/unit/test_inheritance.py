"""What a child has of its parents: operators that are known give what they are known to give."""

import pytest
import torch

from redqueen.models.adapter import Adapter, LoraPair
from redqueen.models.inheritance import overlap


def adapter(seed: int) -> Adapter:
    rng = torch.Generator().manual_seed(seed)
    pair = LoraPair(torch.randn(64, 3, generator=rng), torch.randn(3, 48, generator=rng))
    return Adapter({"layers.0.q": pair}, 3, 3)


def test_a_copy_is_all_of_its_parent_and_nothing_of_the_other() -> None:
    (found,) = overlap(adapter(1), [adapter(1), adapter(2)])
    assert found.cosines[0] == pytest.approx(1) and abs(found.cosines[1]) < 0.6
    assert found.weights == pytest.approx((1, 0), abs=1e-6)
    assert found.explained == pytest.approx(1) and found.directions == (3, 0, 0)
    assert found.projection == "layers.0.q"


def test_a_mean_has_half_of_each_and_a_stranger_has_directions_of_its_own() -> None:
    first, second = (adapter(seed).projections["layers.0.q"] for seed in (1, 2))
    both = LoraPair(torch.cat([first.a, second.a], 1), torch.cat([first.b, second.b]) / 2)
    (found,) = overlap(Adapter({"layers.0.q": both}, 6, 6), [adapter(1), adapter(2)])
    assert found.weights == pytest.approx((0.5, 0.5)) and found.explained == pytest.approx(1)
    (found,) = overlap(adapter(9), [adapter(1), adapter(2)])
    assert found.directions[-1] == 3 and found.explained < 0.5


def test_new_adapters_have_no_direction_and_divide_by_nothing() -> None:
    nil = Adapter({"layers.0.q": LoraPair(torch.ones(64, 3), torch.zeros(3, 48))}, 3, 3)
    (found,) = overlap(nil, [adapter(1), nil])
    assert (found.size, found.explained, found.cosines) == (0, 0, (0, 0))

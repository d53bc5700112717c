"""Every operator of the tables under one contract, and the linear algebra under them against plain
float64."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from redqueen.errors import ConfigError
from redqueen.models.adapter import Adapter, LoraPair
from redqueen.stages.evolve.breed import breed as make_child
from redqueen.stages.evolve.cross import CROSSOVERS
from redqueen.stages.evolve.cross.copy_parent import CopyParent
from redqueen.stages.evolve.cross.dare import Dare
from redqueen.stages.evolve.cross.della import Della
from redqueen.stages.evolve.cross.extrapolate import Extrapolate
from redqueen.stages.evolve.cross.layerwise import Layerwise
from redqueen.stages.evolve.cross.linear import Linear
from redqueen.stages.evolve.cross.slerp import Slerp
from redqueen.stages.evolve.cross.svd_subspace import SvdSubspace
from redqueen.stages.evolve.cross.ties import Ties
from redqueen.stages.evolve.lowrank import NEWBORN_SIZE, Span, Stack, stacks
from redqueen.stages.evolve.merge import MERGES, merge_adapters, softmax
from redqueen.stages.evolve.mutate import MUTATIONS
from redqueen.stages.evolve.mutate.component_mask import ComponentMask
from redqueen.stages.evolve.mutate.gaussian import Gaussian
from redqueen.stages.evolve.mutate.layer_gaussian import LayerGaussian
from redqueen.stages.evolve.mutate.neftune import Neftune
from redqueen.stages.evolve.mutate.rank_perturb import RankPerturb
from redqueen.stages.evolve.mutate.svd_jitter import SvdJitter
from redqueen.stages.evolve.operator import CustomOperator, OperatorSettings
from redqueen.stages.evolve.operator_rng import OperatorRng
from redqueen.stages.evolve.plan import PlannedOperator

RANK = 4
SHAPES = {"q": (24, 24), "k": (24, 8), "v": (24, 8), "up": (24, 40), "down": (40, 24)}
OPERATORS = {
    name: settings
    for table in (MUTATIONS, CROSSOVERS)
    for name in table
    if isinstance(settings := table.choose(name), OperatorSettings)
}
"""Every operator with its default settings."""
ZERO_STRENGTH: dict[str, OperatorSettings] = {
    "svd_jitter": SvdJitter(eps=0, turn=0),
    "layer_gaussian": LayerGaussian(eps=0),
    "component_mask": ComponentMask(rho=0),
    "gaussian": Gaussian(eps=0),
    "neftune": Neftune(noise_alpha=0),
    "rank_perturb": RankPerturb(components=0),
    "dare": Dare(drop=0, share=0),
    "layerwise": Layerwise(share=0),
    "svd_subspace": SvdSubspace(leading=RANK),
    "extrapolate": Extrapolate(eta_low=1, eta_high=1),
    "linear": Linear(share=0),
    "slerp": Slerp(share=0),
    "copy_parent": CopyParent(),
}
"""Settings at which the child is its first parent. ties and della have none: votes always count."""
ITSELF: list[OperatorSettings] = [
    Layerwise(),
    SvdSubspace(),
    Extrapolate(),
    Linear(),
    Slerp(),
    CopyParent(),
    Ties(density=1),
    Dare(drop=0),
    Della(drop=0),
]
"""Settings at which a parent crossed with itself is itself."""


Projections = dict[str, LoraPair]


def as_adapters(members: Sequence[Projections]) -> list[Adapter]:
    """Whatever alpha is: it is one constant for all members."""
    return [Adapter(pairs, next(iter(pairs.values())).a.shape[1], 16.0) for pairs in members]


def breed(
    parents: Sequence[Projections],
    settings: OperatorSettings,
    seed: int,
    device: str | None = None,
) -> Projections:
    operator = PlannedOperator(settings, crosses=settings.type in CROSSOVERS)
    return dict(make_child(as_adapters(parents), operator, seed, device).projections)


def member(
    seed: int,
    *,
    trained: bool = True,
    rank: int = RANK,
    shapes: dict[str, tuple[int, int]] = SHAPES,
) -> Projections:
    generator = torch.Generator().manual_seed(seed)
    pairs: Projections = {}
    for layer in range(3):
        for name, (inside, outside) in shapes.items():
            a = (torch.rand(inside, rank, generator=generator) * 2 - 1) / math.sqrt(inside)
            b = torch.randn(rank, outside, generator=generator) * (0.05 if trained else 0.0)
            pairs[f"{layer}.{name}"] = LoraPair(a, b)
    return pairs


def deltas(adapter: Projections) -> dict[str, Tensor]:
    return {name: a.double() @ b.double() for name, (a, b) in adapter.items()}


def off(one: Projections, other: Projections) -> float:
    """The largest difference between two members' Deltas, beside the largest entry."""
    delta, expected = deltas(one), deltas(other)
    largest = max(float(values.abs().max()) for values in expected.values()) or 1.0
    return max(float((delta[name] - expected[name]).abs().max()) for name in expected) / largest


def same(one: Projections, other: Projections) -> bool:
    return all(
        torch.equal(one[name][which], other[name][which]) for name in other for which in (0, 1)
    )


def copied(adapters: Sequence[Projections]) -> list[Projections]:
    return [
        {name: LoraPair(a.clone(), b.clone()) for name, (a, b) in adapter.items()}
        for adapter in adapters
    ]


PARENTS = [member(1), member(2)]


@pytest.mark.parametrize("name", OPERATORS)
def test_a_child_has_its_parents_shapes_is_finite_and_leaves_them_alone(name: str) -> None:
    before = copied(PARENTS)
    child = breed(PARENTS, OPERATORS[name], 7)
    assert list(child) == list(PARENTS[0])
    for key, (a, b) in child.items():
        assert (a.shape, b.shape, a.dtype, b.dtype) == (
            PARENTS[0][key][0].shape,
            PARENTS[0][key][1].shape,
            torch.float32,
            torch.float32,
        )
        assert (
            a.is_contiguous()
            and b.is_contiguous()
            and a.untyped_storage().nbytes() == 4 * a.numel()
        )
        assert torch.isfinite(a).all() and torch.isfinite(b).all()
    for a, _ in child.values():
        a.fill_(9)
    assert all(same(parent, was) for parent, was in zip(PARENTS, before, strict=True))


@pytest.mark.parametrize("name", OPERATORS)
def test_the_same_stream_gives_the_same_child_and_another_gives_another(name: str) -> None:
    settings = OPERATORS[name]
    one, again, *others = (breed(PARENTS, settings, seed) for seed in (7, 7, 8, 9, 10, 11))
    assert same(one, again)
    assert all(same(one, other) for other in others) == (
        name in ("linear", "slerp", "ties", "copy_parent")
    )  # without chance


@pytest.mark.parametrize("name", OPERATORS)
def test_what_a_projection_becomes_does_not_depend_on_those_beside_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = OPERATORS[name]
    stacked = breed(PARENTS, settings, 7)
    monkeypatch.setattr(
        "redqueen.stages.evolve.lowrank._PIECE_CPU", 1
    )  # a stack for each projection
    assert off(breed(PARENTS, settings, 7), stacked) < 1e-5


@pytest.mark.parametrize("name", ZERO_STRENGTH)
def test_at_zero_strength_the_child_is_its_first_parent(name: str) -> None:
    assert off(breed(PARENTS, ZERO_STRENGTH[name], 7), PARENTS[0]) < 1e-5


def test_every_operator_has_a_zero_strength_but_those_that_vote() -> None:
    assert set(OPERATORS) - set(ZERO_STRENGTH) == {"ties", "della"}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_child_differs_from_its_first_parent(name: str) -> None:
    child = breed(PARENTS, OPERATORS[name], 7)
    assert (off(child, PARENTS[0]) > 1e-3) == (name != "copy_parent")


@pytest.mark.parametrize("settings", ITSELF, ids=lambda settings: settings.type)
def test_a_parent_crossed_with_itself_is_itself(settings: OperatorSettings) -> None:
    assert off(breed([PARENTS[0], PARENTS[0]], settings, 7), PARENTS[0]) < 1e-5


@pytest.mark.parametrize("settings", [Dare(), Della()], ids=lambda settings: settings.type)
def test_a_parent_crossed_with_itself_is_itself_in_expectation(settings: OperatorSettings) -> None:
    parent = {name: PARENTS[0][name] for name in ("0.q", "1.up")}
    children = [
        torch.cat(
            [delta.flatten() for delta in deltas(breed([parent, parent], settings, seed)).values()]
        )
        for seed in range(200)
    ]
    samples = torch.stack(children)
    expected = torch.cat([delta.flatten() for delta in deltas(parent).values()])
    errors = (samples.mean(0) - expected) / (samples.std(0) / math.sqrt(len(children)))
    # as far as chance goes, and no farther
    assert 0.85 < float(errors.square().mean().sqrt()) < 1.15
    assert float((samples - expected).norm()) > 0.1 * float(samples.norm()), "nothing was dropped"


@pytest.mark.parametrize("name", OPERATORS)
def test_a_child_of_newborns_is_a_newborn_that_can_learn(name: str) -> None:
    newborns = [member(1, trained=False), member(2, trained=False)]
    child = breed(newborns, OPERATORS[name], 7)
    for key, (a, b) in child.items():
        assert not b.any(), f"{key} is not the base"
        lengths = a.norm(dim=0)
        assert (
            float(lengths.min()) > 0.3 * NEWBORN_SIZE and float(lengths.max()) < 10 * NEWBORN_SIZE
        )
        assert torch.linalg.matrix_rank(a) == RANK


@pytest.mark.parametrize("name", OPERATORS)
def test_a_newborn_and_a_trained_member_have_a_child_whose_components_are_all_alive(
    name: str,
) -> None:
    for parents in ([member(1), member(2, trained=False)], [member(1, trained=False), member(2)]):
        child = breed(parents, OPERATORS[name], 7)
        for a, b in child.values():
            assert torch.isfinite(a).all() and torch.isfinite(b).all()
            assert float(a.norm(dim=0).min()) > 1e-3


def awkward() -> dict[str, tuple[Tensor, Tensor]]:
    """Factors that decompositions stumble over."""
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(24, RANK, generator=generator), torch.randn(RANK, 16, generator=generator)
    orthogonal = torch.linalg.qr(a).Q, torch.linalg.qr(b.T).Q.T
    weak = torch.tensor([1.0, 1e-3, 1e-6, 1e-9])
    return {
        "nothing at all": (torch.zeros(24, RANK), torch.zeros(RANK, 16)),
        "A zero": (torch.zeros(24, RANK), b),
        "equal singular values": orthogonal,
        "one component": (a * torch.tensor([1.0, 0, 0, 0]), b),
        "equal columns": (a[:, :1].expand(24, RANK), b),
        "half of B": (a, b * torch.tensor([[1.0], [1], [0], [0]])),
        "from strong to nil": (orthogonal[0] * weak, orthogonal[1]),
        "huge": (a * 1e12, b * 1e12),
        "tiny": (a * 1e-18, b * 1e-18),
    }


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("case", awkward())
def test_awkward_factors_give_finite_children_with_no_dead_component(case: str, name: str) -> None:
    a, b = awkward()[case]
    other = torch.Generator().manual_seed(3)
    beside = LoraPair(
        torch.randn(24, RANK, generator=other), torch.randn(RANK, 16, generator=other)
    )
    for parents in (
        [{"x": LoraPair(a, b)}, {"x": LoraPair(a, b)}],
        [{"x": LoraPair(a, b)}, {"x": beside}],
        [{"x": beside}, {"x": LoraPair(a, b)}],
    ):
        child = breed(parents, OPERATORS[name], 7)["x"]
        assert torch.isfinite(child[0]).all() and torch.isfinite(child[1]).all()
        assert bool(((child[0].norm(dim=0) > 0) | (child[1].norm(dim=1) > 0)).all())


@pytest.mark.parametrize(
    "settings",
    [SvdJitter(eps=0, turn=0), Linear(), Slerp(), SvdSubspace(), Ties(density=1)],
    ids=lambda settings: settings.type,
)
@pytest.mark.parametrize("case", awkward())
def test_awkward_factors_keep_their_product_where_nothing_is_to_change(
    case: str, settings: OperatorSettings
) -> None:
    parent = {"x": LoraPair(*awkward()[case])}
    assert off(breed([parent, parent], settings, 7), parent) < 1e-5


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(("rank", "inside", "outside"), [(1, 8, 8), (6, 4, 5), (2, 1, 1)])
def test_any_rank_and_shape_will_do(name: str, rank: int, inside: int, outside: int) -> None:
    shapes = {"x": (inside, outside)}
    parents = [member(seed, rank=rank, shapes=shapes) for seed in (1, 2)]
    for child in (
        breed(parents, OPERATORS[name], 7),
        breed([parents[0]] * 2, OPERATORS[name], 7),
    ):
        for a, b in child.values():
            assert (
                a.shape == (inside, rank)
                and b.shape == (rank, outside)
                and torch.isfinite(a).all()
                and torch.isfinite(b).all()
            )
            assert bool(((a.norm(dim=0) > 0) | (b.norm(dim=1) > 0)).all())


# what each one says it does


def values(delta: Tensor) -> Tensor:
    every: Tensor = torch.linalg.svdvals(delta)
    return every[:RANK]


def test_a_mean_is_the_nearest_member_to_the_mean_of_the_deltas() -> None:
    child = deltas(breed(PARENTS, Linear(share=0.3), 0))
    for name, delta in child.items():
        u, s, v = torch.linalg.svd(
            0.7 * deltas(PARENTS[0])[name] + 0.3 * deltas(PARENTS[1])[name], full_matrices=False
        )
        torch.testing.assert_close(delta, (u[:, :RANK] * s[:RANK]) @ v[:RANK], atol=1e-6, rtol=1e-5)


def merged(
    members: Sequence[dict[str, LoraPair]], merge: str, fitness: Sequence[float] = ()
) -> Adapter:
    return merge_adapters(as_adapters(members), merge, fitness)


def test_a_soup_is_the_nearest_member_to_the_mean_of_all() -> None:
    members = [*PARENTS, member(3)]
    soup = merge_adapters(as_adapters(members))
    assert list(soup.projections) == list(PARENTS[0]) and soup.rank == RANK
    for name, delta in deltas(dict(soup.projections)).items():
        mean = torch.stack([deltas(parent)[name] for parent in members]).mean(0)
        u, s, v = torch.linalg.svd(mean, full_matrices=False)
        torch.testing.assert_close(delta, (u[:, :RANK] * s[:RANK]) @ v[:RANK], atol=1e-6, rtol=1e-5)


def test_a_weighted_merge_leans_towards_the_fitter_and_is_the_mean_where_all_are_alike() -> None:
    members = [*PARENTS, member(3)]
    weights = softmax([3.0, 1.0, 1.0], 1.0)
    assert sum(weights) == pytest.approx(1) and weights[0] > weights[1] == weights[2]
    for name, delta in deltas(dict(merged(members, "weighted", [3, 1, 1]).projections)).items():
        mixed = sum(w * deltas(one)[name] for w, one in zip(weights, members, strict=True))
        u, s, v = torch.linalg.svd(mixed, full_matrices=False)
        torch.testing.assert_close(delta, (u[:, :RANK] * s[:RANK]) @ v[:RANK], atol=1e-6, rtol=1e-5)
    plain = deltas(dict(merged(members, "mean").projections))
    for name, delta in deltas(dict(merged(members, "weighted").projections)).items():
        torch.testing.assert_close(delta, plain[name], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("merge", MERGES)
def test_a_merge_of_equals_keeps_them_and_leaves_them_alone(merge: str) -> None:
    parent = as_adapters(PARENTS[:1])[0]
    before = deltas(dict(parent.projections))
    loose = {"ties": {"density": 1.0}, "dare": {"drop": 0.0}}.get(merge, {})
    child = merge_adapters([parent] * 3, MERGES.choose({"type": merge, **loose}))
    for name, delta in deltas(dict(child.projections)).items():
        torch.testing.assert_close(delta, before[name], atol=1e-5, rtol=1e-4)
        assert deltas(dict(parent.projections))[name].equal(before[name])


def test_ties_of_many_drops_what_the_majority_of_weight_is_against() -> None:
    parent = as_adapters(PARENTS[:1])[0]
    pairs = {name: LoraPair(a, -b) for name, (a, b) in parent.projections.items()}
    against = Adapter(pairs, parent.rank, parent.alpha)
    child = merge_adapters([parent, parent, against], MERGES.choose({"type": "ties", "density": 1}))
    for name, delta in deltas(dict(child.projections)).items():
        torch.testing.assert_close(delta, deltas(PARENTS[0])[name], atol=1e-5, rtol=1e-4)


def test_dare_of_many_has_the_mean_for_its_expectation_and_follows_its_seed() -> None:
    members = as_adapters([*PARENTS, member(3)])
    choice = MERGES.choose({"type": "dare", "drop": 0.5})
    one, again, other = (merge_adapters(members, choice, seed=seed) for seed in (1, 1, 2))
    name = next(iter(one.projections))
    assert one.projections[name].b.equal(again.projections[name].b)
    assert not one.projections[name].b.equal(other.projections[name].b)


def test_extrapolation_goes_past_the_first_parent() -> None:
    one, other = deltas(PARENTS[0])["0.q"], deltas(PARENTS[1])["0.q"]
    child = deltas(breed(PARENTS, Extrapolate(eta_low=1.5, eta_high=1.5), 0))["0.q"]
    u, s, v = torch.linalg.svd(other + 1.5 * (one - other), full_matrices=False)
    torch.testing.assert_close(child, (u[:, :RANK] * s[:RANK]) @ v[:RANK], atol=1e-6, rtol=1e-5)


def test_a_mask_takes_whole_components_and_no_others() -> None:
    child, parent = deltas(breed(PARENTS[:1], ComponentMask(rho=0.5), 0)), deltas(PARENTS[0])
    for name, delta in child.items():
        assert int((values(delta) > 1e-6).sum()) == RANK // 2
        _, s, v = torch.linalg.svd(parent[name], full_matrices=False)
        kept = (delta @ v[:RANK].T).norm(dim=0)
        assert all(
            math.isclose(strength, whole, rel_tol=1e-4) or strength < 1e-6
            for strength, whole in zip(kept.tolist(), s.tolist(), strict=False)
        )


def test_jitter_stays_within_the_parents_spaces_and_scales_singular_values() -> None:
    jittered, parent = deltas(breed(PARENTS[:1], SvdJitter(eps=0.1, turn=0), 0)), deltas(PARENTS[0])
    turned = deltas(breed(PARENTS[:1], SvdJitter(eps=0, turn=0.3), 0))
    logs = []
    for name, whole in parent.items():
        torch.testing.assert_close(values(turned[name]), values(whole), rtol=1e-4, atol=1e-7)
        assert float((turned[name] - whole).norm() / whole.norm()) > 0.1
        u, _, v = torch.linalg.svd(whole, full_matrices=False)
        u, v = u[:, :RANK], v[:RANK]
        for delta in (jittered[name], turned[name]):
            torch.testing.assert_close(u @ (u.T @ delta @ v.T) @ v, delta, atol=1e-6, rtol=1e-4)
        logs.append((u.T @ jittered[name] @ v.T).diagonal().div(values(whole)).log())
    assert 0.06 < float(torch.cat(logs).std()) < 0.15


def test_a_turn_is_of_the_angle_asked_for_whatever_the_rank() -> None:
    for rank in (2, 8, 32):
        parent = member(1, rank=rank, shapes={"x": (64, 64)})
        u = torch.linalg.svd(deltas(parent)["0.x"])[0][:, :rank]
        child = breed([parent], SvdJitter(eps=0, turn=0.1), 0)["0.x"][0].double()
        cosines = (u * (child / child.norm(dim=0))).sum(0).abs()
        assert 0.03 < float(cosines.clamp(max=1).acos().mean()) < 0.2


def test_noise_in_a_share_of_the_projections_leaves_the_others_bit_for_bit() -> None:
    child = breed(PARENTS[:1], LayerGaussian(), 0)
    changed = [name for name in child if not torch.equal(child[name][0], PARENTS[0][name][0])]
    assert len(changed) == round(0.33 * len(child))
    assert all(
        torch.equal(child[name][1], PARENTS[0][name][1]) == (name not in changed) for name in child
    )


def test_noise_has_the_size_asked_for() -> None:
    child = breed(PARENTS[:1], Gaussian(eps=0.15), 0)
    ratios = [
        float((child[name][which] - factor).std() / factor.std())
        for name, pair in PARENTS[0].items()
        for which, factor in enumerate(pair)
    ]
    assert 0.14 < sum(ratios) / len(ratios) < 0.16
    moved = breed(PARENTS[:1], Neftune(noise_alpha=1), 0)
    for name, (a, b) in PARENTS[0].items():
        assert (
            torch.equal(moved[name][1], b)
            and 0.5 < float((moved[name][0] - a).abs().max()) * math.sqrt(a.numel()) < 1.001
        )


def test_a_redrawn_component_is_new_and_as_strong_as_the_old_one() -> None:
    child, parent = deltas(breed(PARENTS[:1], RankPerturb(), 0))["0.up"], deltas(PARENTS[0])["0.up"]
    u, s, _ = torch.linalg.svd(parent, full_matrices=False)
    torch.testing.assert_close(
        (child - parent).norm(), s[RANK - 1] * math.sqrt(2), rtol=0.2, atol=0
    )
    assert float((child - u[:, :RANK] @ (u[:, :RANK].T @ child)).norm()) > 0.5 * float(s[RANK - 1])


def test_projections_come_whole_from_either_parent() -> None:
    child = breed(PARENTS, Layerwise(), 0)
    origins = [
        next(
            i
            for i, parent in enumerate(PARENTS)
            if all(torch.equal(child[name][k], parent[name][k]) for k in (0, 1))
        )
        for name in child
    ]
    assert set(origins) == {0, 1}


def test_a_subspace_child_has_the_first_parents_leading_triples_and_the_seconds_others() -> None:
    for rest, places in (("tail", slice(3, 4)), ("leading", slice(0, 1))):
        child = deltas(breed(PARENTS, SvdSubspace(leading=3, rest=rest), 0))
        for name, delta in child.items():
            parts = []
            for parent, triples in ((PARENTS[0], slice(0, 3)), (PARENTS[1], places)):
                u, s, v = torch.linalg.svd(deltas(parent)[name], full_matrices=False)
                parts.append((u[:, triples] * s[triples]) @ v[triples])
            torch.testing.assert_close(delta, parts[0] + parts[1], atol=1e-6, rtol=1e-4)


def test_an_arc_between_two_members_keeps_their_length() -> None:
    a = torch.eye(8, 2)
    one, other = (
        {"x": LoraPair(a, torch.tensor([[1.0, 0, 0], [0, 0, 0]]))},
        {"x": LoraPair(a, torch.tensor([[0, 0, 0], [0, 1.0, 0]]))},
    )
    child = breed([one, other], Slerp(), 0)
    torch.testing.assert_close(
        deltas(child)["x"][:2, :2], torch.eye(2).double() * math.sqrt(0.5), atol=1e-6, rtol=1e-5
    )
    opposite = {"x": LoraPair(a, -one["x"][1])}
    assert not deltas(breed([one, opposite], Slerp(), 0))["x"].abs().gt(1e-6).any()


def test_votes_follow_the_heavier_sign_and_small_entries_are_trimmed() -> None:
    a = torch.eye(6, 3)
    one = {"x": LoraPair(a, torch.tensor([[3.0, 1, 0.1], [0, 0, 0], [0, 0, 0]]))}
    other = {"x": LoraPair(a, torch.tensor([[-1.0, 3, 0.1], [0, 0, 0], [0, 0, 0]]))}
    voted = deltas(breed([one, other], Ties(density=1), 0))["x"][0]
    torch.testing.assert_close(voted, torch.tensor([3.0, 2.0, 0.1]).double(), atol=1e-5, rtol=1e-5)
    trimmed = deltas(breed([PARENTS[0], PARENTS[0]], Ties(density=0.1), 0))["0.up"]
    assert float(trimmed.norm()) < 0.9 * float(deltas(PARENTS[0])["0.up"].norm())


# the ground they stand on


def test_a_child_learns_at_its_parents_pace_since_its_a_is_as_long() -> None:
    for settings in (Linear(), SvdJitter(), ComponentMask(), Dare(), Ties(), SvdSubspace()):
        child = breed(PARENTS, settings, 0)
        for name, (a, _) in child.items():
            wanted = [parent[name][0].norm() for parent in PARENTS]
            assert 0.9 * min(wanted) < float(a.norm()) < 1.1 * max(wanted), settings.type


def test_singular_triples_are_those_of_the_full_matrix_even_where_a_is_nearly_dependent() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(1, 300, 8, generator=generator), torch.randn(1, 8, 200, generator=generator)
    a[:, :, 4:] = a[:, :, :4] + 1e-4 * a[:, :, 4:]  # as parents with a common ancestor have it
    svd = Stack(("x",), a, b).svd()
    torch.testing.assert_close(
        svd.values[0], torch.linalg.svdvals(a[0].double() @ b[0].double())[:8], rtol=1e-6, atol=1e-9
    )
    u, v = a[0].double() @ svd.left[0], svd.right[0] @ b[0].double()
    one = torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(u.T @ u, one, atol=1e-6, rtol=0)
    torch.testing.assert_close(v @ v.T, one, atol=1e-6, rtol=0)


def test_products_of_parents_are_those_of_their_deltas() -> None:
    (one, other), *_ = stacks(as_adapters(PARENTS), torch.device("cpu"))
    products = Span(one, other).inner_products()
    for place, name in enumerate(one.names):
        pair = torch.stack([deltas(parent)[name].flatten() for parent in PARENTS])
        torch.testing.assert_close(products[place], pair @ pair.T, rtol=1e-6, atol=1e-9)


def test_random_numbers_are_spread_as_they_say() -> None:
    rng, like = OperatorRng(1, ["x", "y"]), torch.empty(2, 100_001)
    uniform, normal = rng.uniform(["x", "y"], like), rng.normal(["x", "y"], like)
    assert 0 < float(uniform.min()) < 1e-3 and 1 > float(uniform.max()) > 0.999
    torch.testing.assert_close(
        (uniform < 0.3).float().mean(1), torch.full((2,), 0.3), atol=0.01, rtol=0
    )
    torch.testing.assert_close(normal.std(1), torch.ones(2), atol=0.02, rtol=0)
    assert abs(float(torch.corrcoef(uniform)[0, 1])) < 0.02 and not torch.equal(
        rng.uniform(["x", "y"], like), uniform
    )


def test_parents_of_different_populations_are_refused() -> None:
    with pytest.raises(ConfigError, match="one population"):
        breed([member(1), member(2, rank=2)], Linear(), 0)


def test_a_parent_that_is_not_finite_is_an_error() -> None:
    broken = member(1)
    broken["1.q"][0][0, 0] = math.nan
    with pytest.raises(FloatingPointError, match="not finite"):
        breed([broken], Gaussian(), 0)


def test_an_operator_comes_by_import_path() -> None:
    settings = MUTATIONS.choose(
        {"type": "tests.outside.things:mutation", "settings": {"shrink": 2.0}}
    )
    assert isinstance(settings, CustomOperator)
    child = breed(PARENTS[:1], settings, 0)
    assert torch.equal(child["0.q"][1], PARENTS[0]["0.q"][1] * 2)
    with pytest.raises(ConfigError, match="cannot be imported"):
        breed(PARENTS[:1], CustomOperator(type="nowhere.at_all:nothing"), 0)


def test_the_page_about_operators_has_a_row_for_each() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operators.md").read_text()
    page = page.partition("## Merges")[0]
    for name, settings in OPERATORS.items():
        (row,) = (line for line in page.splitlines() if f"| `{name}` |" in line)
        for constant, field in type(settings).model_fields.items():
            assert constant in ("type", "weight") or f"`{constant}` {field.default}" in row, (
                f"{name}: {constant}"
            )


def test_the_bench_times_every_operator(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from redqueen.cli.bench.evolve import evolve
    from redqueen.cli.bench.shapes import SHAPES

    tiny = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    monkeypatch.setitem(SHAPES, "0.5b", tiny)
    evolve("0.5b", 4, "cpu", 1, as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert (
        set(result["seconds"]) == set(OPERATORS)
        and result["projections"] == 14
        and result["seconds_from_cpu"] is None
    )
    assert result["parameters"] == 2 * 4 * (2 * (32 + 32) + 2 * (32 + 16) + 3 * (32 + 48))
    evolve("0.5b", 4, "cpu", 1, as_json=False)
    assert "svd_subspace" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.parametrize("name", OPERATORS)
def test_a_gpu_makes_the_same_child(name: str) -> None:
    settings = OPERATORS[name]
    assert off(breed(PARENTS, settings, 7, "cuda"), breed(PARENTS, settings, 7, "cpu")) < 1e-4

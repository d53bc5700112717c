"""The kernels of sampling against torch's own arithmetic."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention, silu
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.population import Population
from redqueen.engine.torch.routing import Routing
from redqueen.models.base import Base, load_base

pytestmark = pytest.mark.gpu

SHAPES = [(5, 8, 2, 32, 130), (3, 14, 2, 64, 200), (2, 28, 4, 128, 700), (3, 4, 4, 24, 65)]


@pytest.mark.parametrize(("lanes", "heads", "shared", "size", "length"), SHAPES)
@pytest.mark.parametrize("window", [None, 50])
def test_attention_looks_at_its_span_alone(
    lanes: int, heads: int, shared: int, size: int, length: int, window: int | None
) -> None:
    from redqueen.engine.torch.kernels import attend

    draw = torch.Generator(device="cuda").manual_seed(lanes)
    query = torch.randn(lanes, 1, heads, size, generator=draw, device="cuda").transpose(1, 2)
    keys, values = (
        torch.randn(lanes, shared, length, size, generator=draw, device="cuda") for _ in range(2)
    )
    last = torch.randint(0, length, (lanes,), generator=draw, device="cuda")
    last[0] = 0
    first = torch.zeros_like(last) if window is None else (last - window + 1).clamp(min=0)
    places = torch.arange(length, device="cuda")
    seen = ((places >= first[:, None]) & (places <= last[:, None]))[:, None, None]
    every = (
        keys.repeat_interleave(heads // shared, 1),
        values.repeat_interleave(heads // shared, 1),
    )
    expected = scaled_dot_product_attention(query, *every, attn_mask=seen).transpose(1, 2)
    found = attend(query, keys, values, torch.stack((first, last), 1), size**-0.5)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_the_norm_is_the_models_own() -> None:
    from redqueen.engine.torch.kernels import normed

    draw = torch.Generator(device="cuda").manual_seed(0)
    for width in (256, 896, 3584):
        norm = LlamaRMSNorm(width).cuda()
        norm.weight.data = torch.randn(width, generator=draw, device="cuda")
        x = torch.randn(3, 1, width, generator=draw, device="cuda")
        torch.testing.assert_close(
            normed(x, norm.weight, norm.variance_epsilon), norm(x), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize(("tokens", "angles"), [(1, 5), (7, 5), (7, 1)])
def test_queries_and_keys_are_turned_as_the_model_does(tokens: int, angles: int) -> None:
    from transformers.models.mistral.modeling_mistral import (
        apply_rotary_pos_emb,  # no engine of these tests changes this one
    )

    from redqueen.engine.torch.kernels import turned

    draw = torch.Generator(device="cuda").manual_seed(0)
    query, key = (
        torch.randn(5, tokens, heads, 64, generator=draw, device="cuda").transpose(1, 2)
        for heads in (14, 2)
    )
    cos, sin = (torch.randn(angles, tokens, 64, generator=draw, device="cuda") for _ in range(2))
    for found, expected in zip(
        turned(query, key, cos, sin), apply_rotary_pos_emb(query, key, cos, sin), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def near(found: Tensor, expected: Tensor) -> None:
    """Equal but for the order of sums, and in bfloat16 but for a rounding."""
    within = 1e-5 if found.dtype == torch.float32 else 2e-2
    torch.testing.assert_close(
        found.float(), expected.float(), rtol=within, atol=within * float(expected.abs().max())
    )


# blocks, rows of each, in, rank, widths of the sisters
GROUPS = [
    (8, 64, 896, 32, (896, 128, 128)),
    (3, 5, 70, 8, (48, 16, 24)),
    (2, 37, 1000, 16, (130, 200)),
    (5, 1, 64, 4, (33,)),
    (1, 130, 2048, 8, (64,)),
]


def group(
    blocks: int, rows: int, inside: int, rank: int, widths: tuple[int, ...], dtype: torch.dtype
) -> dict[str, Any]:
    """Weights of seven slots and rows by chance; B of the sisters stand in one matrix, not side by
    side."""
    torch.manual_seed(blocks)
    a = torch.randn(7, len(widths) * rank, inside, device="cuda") * inside**-0.5
    starts = [
        8 + sum(rank * width + 16 for width in widths[:number]) for number in range(len(widths))
    ]
    matrix = torch.randn(7, starts[-1] + rank * widths[-1] + 3, device="cuda")
    x, plain = (
        torch.randn(blocks * rows, inside, device="cuda"),
        torch.randn(blocks * rows, sum(widths), device="cuda"),
    )
    slots = torch.randint(0, 7, (blocks,), device="cuda")
    return {
        name: value.to(dtype)
        for name, value in {"a": a, "matrix": matrix, "x": x, "plain": plain}.items()
    } | {"starts": starts, "slots": slots}


def routings(slots: Tensor) -> list[tuple[Routing, Tensor]]:
    """In any order and repeated, and one after the other from the second on; with the slot of every
    block."""
    count = len(slots)
    follow = [
        (Routing(None, count, first), torch.arange(first, first + count, device=slots.device))
        for first in (0, 1)
        if first + count <= 7
    ]
    return [(Routing(slots, count), slots), *follow]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("blocks", "rows", "inside", "rank", "widths"), GROUPS)
def test_rows_go_through_the_a_of_their_slots(
    blocks: int, rows: int, inside: int, rank: int, widths: tuple[int, ...], dtype: torch.dtype
) -> None:
    from redqueen.engine.torch.adapter_kernels import shrink

    given = group(blocks, rows, inside, rank, widths, dtype)
    counters = torch.zeros(1024, dtype=torch.int32, device="cuda")
    for routing, slots in routings(given["slots"]):
        expected = torch.bmm(
            given["x"].float().view(blocks, rows, -1), given["a"][slots].float().transpose(1, 2)
        ).flatten(0, 1)
        found = shrink(given["x"], given["a"], routing, counters)
        near(found, expected)
        assert torch.equal(shrink(given["x"], given["a"], routing, counters), found)
        assert not counters.any()


def seconds(
    given: dict[str, Any], low: Tensor, slots: Tensor, rank: int, widths: tuple[int, ...]
) -> list[Tensor]:
    """What B of each sister makes of the rows after A, by torch."""
    found = []
    for number, (start, width) in enumerate(zip(given["starts"], widths, strict=True)):
        b = given["matrix"][slots, start : start + rank * width].unflatten(1, (rank, width)).float()
        found.append(
            torch.bmm(
                low[:, number * rank : (number + 1) * rank].float().view(len(slots), -1, rank), b
            ).flatten(0, 1)
        )
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("blocks", "rows", "inside", "rank", "widths"), GROUPS)
def test_b_of_all_sisters_is_added_to_what_the_base_makes_of_the_rows(
    blocks: int, rows: int, inside: int, rank: int, widths: tuple[int, ...], dtype: torch.dtype
) -> None:
    from redqueen.engine.torch.adapter_kernels import Low, Seconds, expand

    given = group(blocks, rows, inside, rank, widths, dtype)
    b = Seconds(given["matrix"], given["starts"], widths, rank, 0.7)
    for routing, slots in routings(given["slots"]):
        every = torch.randn(
            blocks * rows, 7, len(widths) * rank, device="cuda", dtype=dtype
        )  # the rows after A of each slot
        low = every[torch.arange(blocks * rows, device="cuda"), slots.repeat_interleave(rows)]
        expected = [
            base.float() + 0.7 * more
            for base, more in zip(
                given["plain"].split(widths, 1),
                seconds(given, low, slots, rank, widths),
                strict=True,
            )
        ]
        for kept in (Low(low), Low(every.flatten(1), len(widths) * rank)):
            for found, wanted in zip(
                expand(given["plain"], kept, b, routing), expected, strict=True
            ):
                assert found.is_contiguous()
                near(found, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("blocks", "rows", "rank", "width"), [(8, 64, 32, 4864), (3, 5, 8, 40), (4, 1, 4, 33)]
)
def test_a_gate_is_that_of_the_model(
    blocks: int, rows: int, rank: int, width: int, dtype: torch.dtype
) -> None:
    from redqueen.engine.torch.adapter_kernels import Low, Seconds, gated

    given = group(blocks, rows, 16, rank, (width, width), dtype)
    near(
        gated(given["plain"], None, None, None),
        silu(given["plain"][:, :width]) * given["plain"][:, width:],
    )
    low = torch.randn(blocks * rows, 2 * rank, device="cuda", dtype=dtype)
    for routing, slots in routings(given["slots"]):
        more = torch.cat(seconds(given, low, slots, rank, (width, width)), 1)
        both = (given["plain"].float() + 0.7 * more).to(dtype)
        found = gated(
            given["plain"],
            Low(low),
            Seconds(given["matrix"], given["starts"], (width, width), rank, 0.7),
            routing,
        )
        near(found, silu(both[:, :width]) * both[:, width:])


def small_base(family: str) -> Base:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2
    }  # fmt: skip
    model: Any = (
        LlamaForCausalLM(LlamaConfig(**sizes))
        if family == "llama"
        else Qwen2ForCausalLM(Qwen2Config(**sizes))
    )
    for parameter in model.parameters():  # biases are not zero
        torch.nn.init.normal_(parameter, std=0.15)
    return Base(
        "small",
        model.to("cuda").requires_grad_(False).eval(),
        load_base("pawn", device="cpu").tokenizer,
    )


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("slots", [4, 160])
@pytest.mark.parametrize("tokens", [1, 20])
def test_a_pass_is_what_the_layers_make_one_by_one(family: str, slots: int, tokens: int) -> None:
    """With few slots A goes with the base's product, with many it is a kernel."""
    base = small_base(family)
    separate = {name: weight.clone() for name, weight in base.model.state_dict().items()}
    population = Population(base, slots, 8, 16)
    population.weights.normal_(std=0.1)
    population.changed()
    for name, weight in base.model.state_dict().items():
        assert torch.equal(weight, separate[name.replace(".linear.", ".")])
    forward = Forward(base, population)
    ids = torch.arange(24 * tokens, device="cuda").view(24, tokens) % 97
    places = torch.arange(tokens, device="cuda").expand(24, -1)
    some = [3] * 6 + [1] * 6 + [2] * 6 + [0] * 6
    for routing in (
        None,
        Routing.of(some, population),
        Routing.of([slots - 2] * 12 + [slots - 1] * 12, population),
    ):
        with torch.no_grad():
            together = forward._run(ids, places, None, None, routing)
            again = forward._run(ids, places, None, None, routing)
            assert torch.equal(together, again)
            for sisters in population.sisters:
                assert sisters.fused and sisters.last is None
                sisters.fused = False
            alone = forward._run(ids, places, None, None, routing)
        for sisters in population.sisters:
            sisters.fused = True
        near(together, alone)


def test_the_weights_of_sisters_are_one_matrix_and_still_their_own() -> None:
    base = small_base("qwen2")
    population = Population(base, 2, 8, 16)
    layer: Any = base.model.get_decoder().layers[0].self_attn
    x = torch.randn(3, 1, 64, device="cuda")
    with torch.no_grad():
        found = [layer.q_proj(x), layer.k_proj(x), layer.v_proj(x)]
        expected = [
            linear(x, one.weight, one.bias) for one in (layer.q_proj, layer.k_proj, layer.v_proj)
        ]
    for one, other in zip(found, expected, strict=True):
        near(one, other)
    matrix = population.sisters[0].weight
    assert layer.k_proj.linear.weight.data_ptr() == matrix[64:].data_ptr()

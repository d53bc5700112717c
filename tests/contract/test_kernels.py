"""The Triton kernels against torch's own arithmetic, and models that run with them against models
that do not. Without a GPU the kernels run in Triton's interpreter, on small shapes."""

import os
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention, silu
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers.models.llama import modeling_llama
from transformers.models.llama.modeling_llama import LlamaRMSNorm, apply_rotary_pos_emb

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.protocol import Completion, SampleRequest, SamplingParams
from redqueen.engine.torch import fused_projections, kernel_layers
from redqueen.engine.torch.engine import TorchEngine
from redqueen.engine.torch.forward import Forward
from redqueen.engine.torch.population import Population
from redqueen.engine.torch.routing import Routing
from redqueen.models.base import Base, load_base

pytest.importorskip("triton")
pytestmark = pytest.mark.slow  # the interpreter runs kernels a program at a time

ON_GPU = torch.cuda.is_available()
HALF = torch.bfloat16 if ON_GPU else torch.float16  # the interpreter has no products of bfloat16


@pytest.fixture
def kernel_device(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A GPU, or a CPU on which models use kernels, too."""
    if ON_GPU:
        return torch.device("cuda")
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("needs a GPU, or TRITON_INTERPRET=1 before Triton is imported")
    monkeypatch.setattr(fused_projections, "has_kernels", lambda device: True)
    monkeypatch.setattr(kernel_layers, "has_kernels", lambda device: True)
    return torch.device("cpu")


def near(ours: Tensor, theirs: Tensor) -> None:
    """Equal but for the order of sums, and in 16 bits but for a rounding."""
    tolerance = 1e-5 if ours.dtype == torch.float32 else 2e-2
    torch.testing.assert_close(
        ours.float(), theirs.float(), rtol=tolerance, atol=tolerance * float(theirs.abs().max())
    )


# seq_slots, heads, kv_heads, head_dim, length
ATTENTION = [
    (3, 4, 4, 24, 65),
    (3, 6, 2, 32, 130),
    pytest.param(3, 14, 2, 64, 200, marks=pytest.mark.gpu),
    pytest.param(2, 28, 4, 128, 700, marks=pytest.mark.gpu),
]


@pytest.mark.parametrize(("seq_slots", "heads", "kv_heads", "head_dim", "length"), ATTENTION)
@pytest.mark.parametrize("window", [None, 50])
def test_attention_sees_its_kv_range_alone(
    seq_slots: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    length: int,
    window: int | None,
    kernel_device: torch.device,
) -> None:
    from redqueen.engine.torch.kernels import decode_attention

    torch.manual_seed(seq_slots)
    query = torch.randn(seq_slots, 1, heads, head_dim, device=kernel_device).transpose(1, 2)
    keys, values = (
        torch.randn(seq_slots, kv_heads, length, head_dim, device=kernel_device) for _ in range(2)
    )
    last = torch.randint(0, length, (seq_slots,), device=kernel_device)
    last[0] = 0
    first = torch.zeros_like(last) if window is None else (last - window + 1).clamp(min=0)
    positions = torch.arange(length, device=kernel_device)
    seen = ((positions >= first[:, None]) & (positions <= last[:, None]))[:, None, None]
    k, v = (each.repeat_interleave(heads // kv_heads, 1) for each in (keys, values))
    expected = scaled_dot_product_attention(query, k, v, attn_mask=seen).transpose(1, 2)
    ranges = torch.stack((first, last), 1)
    near(decode_attention(query, keys, values, ranges, head_dim**-0.5), expected)


@pytest.mark.parametrize("width", [40, 256, 896, 3584])
def test_rms_norm_is_the_models_own(width: int, kernel_device: torch.device) -> None:
    from redqueen.engine.torch.kernels import rms_norm

    torch.manual_seed(0)
    norm = LlamaRMSNorm(width).to(kernel_device)
    norm.weight.data = torch.randn(width, device=kernel_device)
    x = torch.randn(3, 1, width, device=kernel_device)
    near(rms_norm(x, norm.weight, norm.variance_epsilon), norm(x).detach())


@pytest.mark.parametrize(("tokens", "angles"), [(1, 3), (4, 3), (4, 1)])
def test_rotary_embedding_is_the_models_own(
    tokens: int, angles: int, kernel_device: torch.device
) -> None:
    from redqueen.engine.torch.kernels import rotary_embedding

    torch.manual_seed(0)
    query, key = (
        torch.randn(3, tokens, heads, 64, device=kernel_device).transpose(1, 2) for heads in (6, 2)
    )
    cos, sin = (torch.randn(angles, tokens, 64, device=kernel_device) for _ in range(2))
    ours = rotary_embedding(query, key, cos, sin)
    for found, expected in zip(ours, apply_rotary_pos_emb(query, key, cos, sin), strict=True):
        near(found, expected)


# blocks, rows of each, in, rank, widths of the projections
PROJECTIONS = [
    (3, 5, 70, 8, (48, 16, 24)),
    (2, 3, 600, 4, (33, 40)),  # few tiles of many features: sums are split
    (5, 1, 64, 4, (33,)),
    pytest.param(8, 64, 896, 32, (896, 128, 128), marks=pytest.mark.gpu),
    pytest.param(2, 37, 1000, 16, (130, 200), marks=pytest.mark.gpu),
    pytest.param(1, 130, 2048, 8, (64,), marks=pytest.mark.gpu),
]
ADAPTERS = 7


def random_batch(
    blocks: int,
    rows: int,
    features: int,
    rank: int,
    widths: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
) -> dict[str, Any]:
    """Rows and weights of seven adapters; B of the projections lie apart in one matrix."""
    torch.manual_seed(blocks)
    starts = [
        8 + sum(rank * width + 16 for width in widths[:index]) for index in range(len(widths))
    ]
    size = starts[-1] + rank * widths[-1] + 3
    values = {
        "a": torch.randn(ADAPTERS, len(widths) * rank, features, device=device) * features**-0.5,
        "matrix": torch.randn(ADAPTERS, size, device=device),
        "x": torch.randn(blocks * rows, features, device=device),
        "base_out": torch.randn(blocks * rows, sum(widths), device=device),
    }
    adapters = torch.randint(0, ADAPTERS, (blocks,), device=device)
    return {name: value.to(dtype) for name, value in values.items()} | {
        "starts": starts,
        "adapters": adapters,
    }


def routings(adapters: Tensor) -> list[tuple[Routing, Tensor]]:
    """Adapters in any order and repeated, and consecutive from the second one on, where there are
    so many; each with the adapter of every block."""
    count = len(adapters)
    listed = Routing(adapters, count), adapters
    if count >= ADAPTERS:
        return [listed]
    consecutive = torch.arange(1, 1 + count, device=adapters.device)
    return [listed, (Routing(None, count, 1), consecutive)]


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize(("blocks", "rows", "features", "rank", "widths"), PROJECTIONS)
def test_rows_are_shrunk_by_a_of_their_adapters(
    blocks: int,
    rows: int,
    features: int,
    rank: int,
    widths: tuple[int, ...],
    dtype: torch.dtype,
    kernel_device: torch.device,
) -> None:
    from redqueen.engine.torch.adapter_kernels import NUM_COUNTERS, shrink

    batch = random_batch(blocks, rows, features, rank, widths, dtype, kernel_device)
    counters = torch.zeros(NUM_COUNTERS, dtype=torch.int32, device=kernel_device)
    for routing, adapters in routings(batch["adapters"]):
        x, a = batch["x"].float().view(blocks, rows, -1), batch["a"][adapters].float()
        out = shrink(batch["x"], batch["a"], routing, counters)
        near(out, torch.bmm(x, a.transpose(1, 2)).flatten(0, 1))
        assert torch.equal(shrink(batch["x"], batch["a"], routing, counters), out)
        assert not counters.any()


def lora_b_outputs(
    batch: dict[str, Any], lora_a_out: Tensor, adapters: Tensor, rank: int, widths: tuple[int, ...]
) -> list[Tensor]:
    """What B of each projection makes of the rows after A, by torch."""
    outputs = []
    for index, (start, width) in enumerate(zip(batch["starts"], widths, strict=True)):
        b = batch["matrix"][adapters, start : start + rank * width].unflatten(1, (rank, width))
        own = lora_a_out[:, index * rank : (index + 1) * rank].float().view(len(adapters), -1, rank)
        outputs.append(torch.bmm(own, b.float()).flatten(0, 1))
    return outputs


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize(("blocks", "rows", "features", "rank", "widths"), PROJECTIONS)
def test_b_of_all_projections_is_added_to_the_bases_output(
    blocks: int,
    rows: int,
    features: int,
    rank: int,
    widths: tuple[int, ...],
    dtype: torch.dtype,
    kernel_device: torch.device,
) -> None:
    from redqueen.engine.torch.adapter_kernels import LoraAOutput, LoraB, expand

    batch = random_batch(blocks, rows, features, rank, widths, dtype, kernel_device)
    b = LoraB(batch["matrix"], batch["starts"], widths, rank, 0.7)
    for routing, adapters in routings(batch["adapters"]):
        by_adapter = torch.randn(
            blocks * rows, ADAPTERS, len(widths) * rank, device=kernel_device, dtype=dtype
        )
        own = by_adapter[
            torch.arange(blocks * rows, device=kernel_device), adapters.repeat_interleave(rows)
        ]
        expected = [
            base.float() + 0.7 * added
            for base, added in zip(
                batch["base_out"].split(widths, 1),
                lora_b_outputs(batch, own, adapters, rank, widths),
                strict=True,
            )
        ]
        for lora_a_out in (LoraAOutput(own), LoraAOutput(by_adapter.flatten(1), own.shape[1])):
            outputs = expand(batch["base_out"], lora_a_out, b, routing)
            for ours, theirs in zip(outputs, expected, strict=True):
                assert ours.is_contiguous()
                near(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize(
    ("blocks", "rows", "rank", "width"),
    [(3, 5, 8, 40), (4, 1, 4, 33), pytest.param(8, 64, 32, 4864, marks=pytest.mark.gpu)],
)
def test_swiglu_is_that_of_the_model(
    blocks: int, rows: int, rank: int, width: int, dtype: torch.dtype, kernel_device: torch.device
) -> None:
    from redqueen.engine.torch.adapter_kernels import LoraAOutput, LoraB, expand_swiglu

    widths = width, width
    batch = random_batch(blocks, rows, 16, rank, widths, dtype, kernel_device)
    gate, up = batch["base_out"].split(widths, 1)
    near(expand_swiglu(batch["base_out"], None, None, None), silu(gate) * up)
    lora_a_out = torch.randn(blocks * rows, 2 * rank, device=kernel_device, dtype=dtype)
    b = LoraB(batch["matrix"], batch["starts"], widths, rank, 0.7)
    for routing, adapters in routings(batch["adapters"]):
        added = torch.cat(lora_b_outputs(batch, lora_a_out, adapters, rank, widths), 1)
        gate, up = (batch["base_out"].float() + 0.7 * added).to(dtype).split(widths, 1)
        out = expand_swiglu(batch["base_out"], LoraAOutput(lora_a_out), b, routing)
        near(out, silu(gate) * up)


# models with kernels


def small_base(family: str, device: torch.device) -> Base:
    torch.manual_seed(0)
    scale = 2 if ON_GPU else 1
    sizes: dict[str, Any] = {
        "vocab_size": 97,
        "hidden_size": 32 * scale,
        "intermediate_size": 48 * scale,
        "num_hidden_layers": scale,
        "num_attention_heads": 2 * scale,
        "num_key_value_heads": scale,
    }
    model: Any = (
        LlamaForCausalLM(LlamaConfig(**sizes))
        if family == "llama"
        else Qwen2ForCausalLM(Qwen2Config(**sizes))
    )
    for parameter in model.parameters():  # biases are not zero
        torch.nn.init.normal_(parameter, std=0.15)
    return Base(
        "small",
        model.to(device).requires_grad_(False).eval(),
        load_base("pawn", device="cpu").tokenizer,
    )


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("slots", [4, 160])
@pytest.mark.parametrize("tokens", [1, pytest.param(20, marks=pytest.mark.gpu)])
def test_fused_projections_compute_what_the_layers_compute_one_by_one(
    family: str, slots: int, tokens: int, kernel_device: torch.device
) -> None:
    """With few adapters A goes with the base's product, with many it is a kernel."""
    base = small_base(family, kernel_device)
    separate = {name: weight.clone() for name, weight in base.model.state_dict().items()}
    population = Population(base, slots, 8, 16)
    population.weights.normal_(std=0.1)
    population.changed()
    for name, weight in base.model.state_dict().items():
        assert torch.equal(weight, separate[name.replace(".linear.", ".")])
    forward = Forward(base, population)
    ids = torch.arange(4 * tokens, device=kernel_device).view(4, tokens) % 97
    positions = torch.arange(tokens, device=kernel_device).expand(4, -1)
    for adapters in (None, [3, 3, 1, 1], [slots - 2] * 2 + [slots - 1] * 2):
        routing = None if adapters is None else Routing.of(adapters, population)
        with torch.no_grad():
            together = forward._run(ids, positions, None, None, routing)
            assert torch.equal(forward._run(ids, positions, None, None, routing), together)
            for projections in population.fused_projections:
                assert projections.fused and projections.outputs.kept is None
                projections.fused = False
            alone = forward._run(ids, positions, None, None, routing)
        for projections in population.fused_projections:
            projections.fused = True
        near(together, alone)


def test_fused_weights_are_views_of_one_matrix_and_projections_come_in_any_order(
    kernel_device: torch.device,
) -> None:
    base = small_base("qwen2", kernel_device)
    population = Population(base, 2, 8, 16)
    layer: Any = base.model.get_decoder().layers[0].self_attn
    matrix, width = population.fused_projections[0].weight, layer.q_proj.linear.out_features
    assert layer.k_proj.linear.weight.data_ptr() == matrix[width:].data_ptr()
    inputs = [torch.randn(3, 1, matrix.shape[1], device=kernel_device) for _ in range(2)]
    with torch.no_grad():
        for projection, x in (
            (layer.q_proj, inputs[0]),
            (layer.k_proj, inputs[0]),
            (layer.v_proj, inputs[1]),  # another input in between
            (layer.v_proj, inputs[0]),  # the last one first
            (layer.k_proj, inputs[1]),
            (layer.q_proj, inputs[1]),
        ):
            near(projection(x), linear(x, projection.weight, projection.bias))


def sample_with(base: Base, requests: list[SampleRequest]) -> list[Completion]:
    config = EngineConfig(max_num_seqs=4, decode_steps_per_sync=2)
    engine = TorchEngine(base, 2, config, LoraConfig(rank=4))
    assert engine.population is not None
    torch.manual_seed(1)
    engine.population.weights.normal_(std=0.1)
    engine.population.changed()
    return engine.sample(requests, SamplingParams())


def test_completions_with_kernels_are_those_without(
    kernel_device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [SampleRequest((5, 6, 7 + seed % 2), 4, seed % 2, seed) for seed in range(6)]
    ours = sample_with(small_base("llama", kernel_device), requests)
    for module in (fused_projections, kernel_layers):
        monkeypatch.setattr(module, "has_kernels", lambda device: False)
    theirs = sample_with(small_base("llama", kernel_device), requests)
    assert [each.tokens for each in ours] == [each.tokens for each in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_kernels_change_the_given_model_alone(kernel_device: torch.device) -> None:
    plain, cudnn = modeling_llama.apply_rotary_pos_emb, torch.backends.cuda.cudnn_sdp_enabled()
    ours, other = small_base("llama", kernel_device), small_base("llama", kernel_device)
    Forward(ours, None)
    assert modeling_llama.apply_rotary_pos_emb is plain
    assert torch.backends.cuda.cudnn_sdp_enabled() == cudnn
    assert other.model.config._attn_implementation == "sdpa"
    layer: Any = ours.model.get_decoder().layers[0]
    for module in (layer.self_attn, layer.mlp, layer.input_layernorm):
        assert "forward" in vars(module)
    assert not any("forward" in vars(module) for module in other.model.modules())


def test_a_layer_that_the_kernels_stand_in_for_and_is_not_there_is_an_error(
    kernel_device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = small_base("llama", kernel_device)
    monkeypatch.delattr(modeling_llama, "LlamaMLP")
    with pytest.raises(RuntimeError, match=r"LlamaForCausalLM of transformers \S+ has no LlamaMLP"):
        Forward(base, None)

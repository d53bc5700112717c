"""The kernels of a decoding step against torch's own arithmetic."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.models.llama.modeling_llama import LlamaRMSNorm

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SHAPES = [(5, 8, 2, 32, 130), (3, 14, 2, 64, 200), (2, 28, 4, 128, 700), (3, 4, 4, 24, 65)]


@pytest.mark.parametrize(("lanes", "heads", "shared", "size", "length"), SHAPES)
@pytest.mark.parametrize("window", [None, 50])
def test_attention_looks_at_its_span_alone(lanes: int, heads: int, shared: int, size: int, length: int, window: int | None) -> None:
    from redqueen.engine.kernels import attend

    draw = torch.Generator(device="cuda").manual_seed(lanes)
    query = torch.randn(lanes, 1, heads, size, generator=draw, device="cuda").transpose(1, 2)
    keys, values = (torch.randn(lanes, shared, length, size, generator=draw, device="cuda") for _ in range(2))
    last = torch.randint(0, length, (lanes,), generator=draw, device="cuda")
    last[0] = 0
    first = torch.zeros_like(last) if window is None else (last - window + 1).clamp(min=0)
    places = torch.arange(length, device="cuda")
    seen = ((places >= first[:, None]) & (places <= last[:, None]))[:, None, None]
    every = (keys.repeat_interleave(heads // shared, 1), values.repeat_interleave(heads // shared, 1))
    expected = scaled_dot_product_attention(query, *every, attn_mask=seen).transpose(1, 2)
    found = attend(query, keys, values, torch.stack((first, last), 1), size**-0.5)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_the_norm_is_the_models_own() -> None:
    from redqueen.engine.kernels import normed

    draw = torch.Generator(device="cuda").manual_seed(0)
    for width in (256, 896, 3584):
        norm = LlamaRMSNorm(width).cuda()
        norm.weight.data = torch.randn(width, generator=draw, device="cuda")
        x = torch.randn(3, 1, width, generator=draw, device="cuda")
        torch.testing.assert_close(normed(x, norm.weight, norm.variance_epsilon), norm(x), rtol=1e-5, atol=1e-5)


def test_queries_and_keys_are_turned_as_the_model_does() -> None:
    from transformers.models.mistral.modeling_mistral import apply_rotary_pos_emb  # no engine of these tests changes this one

    from redqueen.engine.kernels import turned

    draw = torch.Generator(device="cuda").manual_seed(0)
    query, key = (torch.randn(5, 1, heads, 64, generator=draw, device="cuda").transpose(1, 2) for heads in (14, 2))
    cos, sin = (torch.randn(5, 1, 64, generator=draw, device="cuda") for _ in range(2))
    for found, expected in zip(turned(query, key, cos, sin), apply_rotary_pos_emb(query, key, cos, sin), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)

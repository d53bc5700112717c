"""Tinker's wire format: requests to commands, results to replies. Everything of a request is
checked here; what this server cannot do is refused by name. Protobuf classes are the SDK's own."""

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redqueen.engine.protocol import OptimizerSettings
from redqueen.serve.commands import (
    Command,
    Datum,
    ForwardBackward,
    LoadWeights,
    ModelShape,
    OptimStep,
    Refused,
    SampleOrder,
    SaveWeights,
    Snapshot,
)
from redqueen.serve.losses import check_loss
from redqueen.serve.store import check_name

ODD_FORM = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a request of an unexpected form raises."""
ODD_FORM_TEXT = "the request does not have the expected form"
_MOST_SAMPLES = 1024
_MOST_DATA = 65_536
"""Of one request. Two bytes make an empty one, which takes fifty times that."""
_INPUTS = {"cross_entropy": ({"target_tokens"}, {"weights"})}
_RL_INPUTS: tuple[set[str], set[str]] = ({"target_tokens", "logprobs", "advantages"}, set())
_SAVES = {
    "save_weights": "weights",
    "save_weights_for_sampler": "sampler_weights",
    "save_weights_external": "external_weights",
}


class Decoder:
    """Reads commands, with what must be known of the server to check them."""

    def __init__(self, vocabulary: int, context: int, losses: Collection[str] = ()) -> None:
        self.vocabulary, self.context, self.losses = vocabulary, context, losses

    def __call__(self, kind: str, body: bytes) -> Command:
        """Whatever is wrong with a command, it is refused: it has a place in the order of its
        model."""
        try:
            return self._read(kind, body)
        except ODD_FORM as error:
            raise Refused(ODD_FORM_TEXT) from error

    def _read(self, kind: str, body: bytes) -> Command:
        if kind == "forward_backward":
            return self._forward_backward(body)
        request = read_json_object(body)
        if kind == "optim_step":
            return _optim_step(request)
        if kind == "load_weights":
            if request.get("weights_access_token"):
                raise Refused("weights of other accounts cannot be loaded: there are none here")
            return LoadWeights(str(request.get("path")), bool(request.get("optimizer")))
        return _save(kind, request)

    def _forward_backward(self, body: bytes) -> ForwardBackward:
        message = parse_message(body)
        if len(message.data) > _MOST_DATA:
            raise Refused(f"{len(message.data):,} data; a request has {_MOST_DATA:,} at most", 413)
        config = {key: float(value) for key, value in message.loss_fn_config.items()}
        for key, value in message.loss_fn_config_v2.items():
            config[key] = value.text if value.WhichOneof("value") == "text" else value.number
        loss = check_loss(message.loss_fn, config, self.losses)
        needed, optional = _INPUTS.get(loss.name, _RL_INPUTS)
        data = []
        for number, datum in enumerate(message.data):
            try:
                data.append(self._datum(datum, loss.name, needed, optional))
            except Refused as error:
                raise Refused(f"datum {number}: {error}") from error
        if not data:
            raise Refused("there are no data in this request")
        return ForwardBackward(tuple(data), loss, not message.forward_only)

    def _datum(self, datum: Any, loss: str, needed: set[str], optional: set[str]) -> Datum:
        given = set(datum.loss_fn_inputs)
        if missing := needed - given:
            raise Refused(f"the loss {loss} needs {', '.join(sorted(missing))} in loss_fn_inputs")
        if odd := given - needed - optional:
            raise Refused(
                f"the loss {loss} takes no {', '.join(sorted(odd))} in loss_fn_inputs here: it "
                f"takes {', '.join(sorted(needed | optional))}"
            )
        tokens = _concatenate([_chunk(chunk) for chunk in datum.model_input])
        inputs = {name: _tensor(name, value) for name, value in datum.loss_fn_inputs.items()}
        for name, values in inputs.items():
            if len(values) != len(tokens):
                raise Refused(f"{name} has {len(values)} numbers for {len(tokens)} tokens")
        self.check_tokens(tokens)
        self.check_tokens(inputs["target_tokens"])
        if not 0 < len(tokens) <= self.context:
            raise Refused(f"it has {len(tokens)} tokens; the context is {self.context}")
        weights = inputs.get("weights", inputs.get("advantages", np.ones(len(tokens))))
        return Datum(
            tuple(tokens.tolist()),
            tuple(inputs["target_tokens"].tolist()),
            tuple(map(float, weights.tolist())),
            tuple(map(float, inputs["logprobs"].tolist())) if "logprobs" in inputs else (),
        )

    def check_tokens(self, tokens: NDArray[Any]) -> None:
        if len(tokens) and not (tokens.min() >= 0 and tokens.max() < self.vocabulary):
            raise Refused(
                f"token ids of this model are from 0 to {self.vocabulary - 1}; got "
                f"{int(tokens.min())} to {int(tokens.max())}: another tokenizer?"
            )

    def sample_order(self, request: Mapping[str, Any]) -> SampleOrder:
        """From an `asample` request."""
        for name in (
            "topk_prompt_logprobs",
            "topk_sample_logprobs",
            "target_prompt_logprobs",
            "prompt_alt_tokens_k",
            "record_stability_info",
        ):
            if request.get(name):
                raise Refused(f"{name} is not supported by this server")
        chunks = (request.get("prompt") or {}).get("chunks") or []
        if any(set(chunk) - {"tokens", "type"} for chunk in chunks):
            raise Refused("prompts are tokens here: images and audio are not supported")
        params = request.get("sampling_params") or {}
        tokens = [token for chunk in chunks for token in chunk["tokens"]]
        return make_order(self, tokens, params, request)


def make_order(
    decoder: Decoder, tokens: Any, params: Mapping[str, Any], request: Mapping[str, Any]
) -> SampleOrder:
    """Checks the numbers that a request for samples has, of either API."""
    if isinstance(tokens, list) and len(tokens) > decoder.context:
        raise Refused(
            f"the prompt has {len(tokens)} tokens; this model has a context of {decoder.context}"
        )
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        raise Refused("a prompt is a list of token ids")
    decoder.check_tokens(np.array([min(max(t, -1), 1 << 40) for t in tokens], np.int64))
    if params.get("top_k", -1) not in (-1, 0, None):
        raise Refused("top_k is not supported by this server: use top_p")
    temperature = _number(params, "temperature", 1.0, 0.0, 100.0)
    if 0 < temperature < 0.01:
        raise Refused("a temperature is 0 (greedy), or at least 0.01")
    max_tokens, seed = params.get("max_tokens"), params.get("seed")
    if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
        raise Refused(f"max_tokens is a positive number; got {max_tokens!r}")
    if seed is not None and type(seed) is not int:
        raise Refused(f"a seed is a whole number; got {seed!r}")
    count = request.get("num_samples", 1)
    if type(count) is not int or not 1 <= count <= _MOST_SAMPLES:
        raise Refused(f"1 to {_MOST_SAMPLES} samples of a prompt can be asked for; got {count!r}")
    stop_tokens, stop_texts = _stops(params.get("stop"), decoder.vocabulary)
    return SampleOrder(
        tuple(tokens),
        count,
        max_tokens,
        temperature,
        _number(params, "top_p", 1.0, 1e-6, 1.0),
        stop_tokens,
        stop_texts,
        seed,
        bool(request.get("prompt_logprobs")),
    )


def _stops(stop: Any, vocabulary: int) -> tuple[frozenset[int] | None, tuple[str, ...]]:
    """None: where the model ends its turn. A list: there, and nowhere else."""
    if stop is None:
        return None, ()
    given = [stop] if isinstance(stop, str) else stop
    if isinstance(given, list) and len(given) <= 64:
        if all(isinstance(one, str) and 0 < len(one) <= 256 for one in given) and given:
            return None, tuple(sorted(set(given)))
        if all(type(one) is int and 0 <= one < vocabulary for one in given):
            return frozenset(given), ()
    raise Refused(
        "stop is a text, a list of texts, or a list of token ids of this model, 64 at most"
    )


def _number(table: Mapping[str, Any], name: str, default: float, low: float, high: float) -> float:
    value = table.get(name)
    value = default if value is None else value
    if type(value) not in (int, float) or not low <= value <= high:
        raise Refused(f"{name} is a number from {low:g} to {high:g}; got {value!r}")
    return float(value)


def _optim_step(request: Mapping[str, Any]) -> OptimStep:
    params = request.get("adam_params")
    if not isinstance(params, dict):
        kind = (request.get("optimizer_params") or {}).get("type", "none")
        raise Refused(f"the optimizer '{kind}' is not supported: this server has AdamW")
    clip = _number(params, "grad_clip_norm", 0.0, 0.0, math.inf)
    return OptimStep(
        OptimizerSettings(
            learning_rate=_number(params, "learning_rate", 1e-4, 0.0, 1e3),
            weight_decay=_number(params, "weight_decay", 0.0, 0.0, 1e3),
            beta1=_number(params, "beta1", 0.9, 0.0, 0.999999),
            beta2=_number(params, "beta2", 0.95, 0.0, 0.9999999),
            grad_clip=clip or math.inf,
            eps=_number(params, "eps", 1e-12, 0.0, 1.0),
        )
    )


def _save(kind: str, request: Mapping[str, Any]) -> Command:
    name = request.get("path")
    if name is None and kind == "save_weights_for_sampler":
        number = read_count(request, "sampling_session_seq_id")
        session = str(request.get("model_id")).partition(":train:")[0]
        return Snapshot(f"{session}:sample:{number}")
    if request.get("age_encryption_recipients"):
        raise Refused("encrypted exports are not supported by this server")
    ttl = request.get("ttl_seconds")
    if ttl is not None and (type(ttl) is not int or not 1 <= ttl < 1 << 32):
        raise Refused(f"ttl_seconds is a positive number; got {ttl!r}")
    return SaveWeights(
        _SAVES[kind], check_name(name), bool(request.get("overwrite")), ttl, read_metadata(request)
    )


def read_metadata(request: Mapping[str, Any]) -> dict[str, Any]:
    """What a tenant notes with a model or a checkpoint. It is told again as JSON: what JSON does
    not have is refused."""
    metadata = request.get("user_metadata") or {}
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        raise Refused(f"user_metadata is not JSON: {str(error)[:80]}") from error
    if not isinstance(metadata, dict) or len(text) > 65_536:
        raise Refused("user_metadata is a table of at most 64 kB")
    return metadata


def read_count(request: Mapping[str, Any], name: str) -> int:
    """A number that becomes part of an id, and so of the name of a file."""
    number = request.get(name)
    if type(number) is not int or not 0 <= number < 1 << 31:
        raise Refused(f"{name} is a whole number below 2^31; got {str(number)[:80]!r}")
    return number


def read_shape(request: Mapping[str, Any], seed: int) -> ModelShape:
    """Of a `create_model` request; `seed` is taken where it names none."""
    config = request.get("lora_config")
    if not isinstance(config, dict):
        raise Refused("this server trains LoRA adapters: lora_config is missing")
    if (request.get("optimizer_config") or {}).get("type", "adamw") != "adamw":
        raise Refused("this server has AdamW; no other optimizer is supported")
    rank, own = config.get("rank"), config.get("seed")
    if type(rank) is not int or (own is not None and type(own) is not int):
        raise Refused("rank and seed of lora_config are whole numbers")
    attn, mlp = (bool(config.get(name, True)) for name in ("train_attn", "train_mlp"))
    if not attn and not mlp:
        raise Refused("train_attn or train_mlp must be on: the unembedding is not trained here")
    return ModelShape(rank, (seed if own is None else own) % (1 << 63), attn, mlp)


def read_json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Refused(f"the request is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Refused("the request is not a JSON object")
    return value


def parse_message(body: bytes) -> Any:
    from google.protobuf.message import DecodeError
    from tinker.proto import tinker_public_pb2 as pb

    message = pb.ForwardBackwardRequest()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise Refused("the request is no ForwardBackwardRequest of the SDK's protocol") from error
    return message


def _chunk(chunk: Any) -> NDArray[Any]:
    if chunk.WhichOneof("chunk") != "encoded_text":
        raise Refused("inputs are tokens here: images and audio are not supported")
    return _from_buffer("tokens", chunk.encoded_text.tokens, np.int32)


def _concatenate(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, np.int32)


def _tensor(name: str, tensor: Any) -> NDArray[Any]:
    if tensor.WhichOneof("encoding") == "sparse_csr" or len(tensor.shape) > 1:
        raise Refused(f"{name} has more than one target for a token, which is not supported")
    from tinker.proto import tinker_public_pb2 as pb

    dtypes = {
        pb.DTYPE_FLOAT32: np.float32,
        pb.DTYPE_INT64: np.int64,
        pb.DTYPE_INT32: np.int32,
    }
    if tensor.dtype not in dtypes:
        raise Refused(f"{name} is neither float32 nor int64")
    values = _from_buffer(name, tensor.dense, dtypes[tensor.dtype])
    if values.dtype == np.float32 and not np.isfinite(values).all():
        raise Refused(f"{name} has numbers that are not finite")
    if name == "target_tokens" and values.dtype == np.float32:
        raise Refused("target_tokens are whole numbers")
    return values


def _from_buffer(name: str, data: bytes, dtype: Any) -> NDArray[Any]:
    if len(data) % np.dtype(dtype).itemsize:
        raise Refused(f"{name} is cut off")
    return np.frombuffer(data, dtype)

"""Results as Tinker's SDK reads them, and requests as it writes them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode_result(result: Mapping[str, Any]) -> bytes | None:
    """As protobuf, where the SDK takes nothing else; None: it takes JSON."""
    if result.get("type") == "forward_backward" and "error" not in result:
        return _encode_forward_backward(result)
    if result.get("type") == "sample" and "error" not in result:
        return _encode_samples(result)
    return None


def _encode_forward_backward(result: Mapping[str, Any]) -> bytes:
    from tinker.proto import tinker_public_pb2 as pb

    output = pb.ForwardBackwardOutput()
    output.loss_fn_output_type = "ArrayRecord"
    for name, value in result["metrics"].items():
        output.metrics[name] = value
    record = output.loss_fn_outputs.add()
    record.num_datums = len(result["logprobs"])
    field, rows = record.fields["logprobs"], result["logprobs"]
    field.dtype = pb.DTYPE_FLOAT32
    field.data = b"".join(np.array(row, np.float32).tobytes() for row in rows)
    field.offsets = (4 * np.cumsum([0, *map(len, rows)])).astype(np.int64).tobytes()
    return bytes(output.SerializeToString())


def _encode_samples(result: Mapping[str, Any]) -> bytes:
    from tinker.proto import tinker_public_pb2 as pb

    output = pb.SampleResponse()
    for one in result["sequences"]:
        sequence = output.sequences.add()
        stopped = one["stop_reason"] == "stop"
        sequence.stop_reason = pb.STOP_REASON_STOP if stopped else pb.STOP_REASON_LENGTH
        sequence.tokens = np.array(one["tokens"], np.int32).tobytes()
        sequence.logprobs = np.array(one["logprobs"], np.float32).tobytes()
    if result["prompt_logprobs"] is not None:
        values = np.array([math.nan, *result["prompt_logprobs"]], np.float32)
        output.prompt_logprobs = values.tobytes()
    return bytes(output.SerializeToString())


def encode_request(
    model: str,
    sequence: int,
    loss: str,
    data: Sequence[tuple[Sequence[int], Sequence[int], Sequence[float], float]],
) -> bytes:
    """A `forward_backward` request on completions: prompt, tokens, log-probabilities, advantage."""
    from tinker.proto import tinker_public_pb2 as pb

    message = pb.ForwardBackwardRequest(model_id=model, seq_id=sequence, loss_fn=loss)
    for prompt, tokens, logprobs, advantage in data:
        datum, before = message.data.add(), len(prompt) - 1
        whole = np.array([*prompt, *tokens], np.int32)
        datum.model_input.add().encoded_text.tokens = whole[:-1].tobytes()
        inputs: dict[str, NDArray[Any]] = {
            "target_tokens": whole[1:].astype(np.int64),
            "logprobs": np.array([0.0] * before + list(logprobs), np.float32),
            "advantages": np.array([0.0] * before + [advantage] * len(tokens), np.float32),
        }
        for name, values in inputs.items():
            tensor = datum.loss_fn_inputs[name]
            is_int = values.dtype == np.int64
            tensor.dtype = pb.DTYPE_INT64 if is_int else pb.DTYPE_FLOAT32
            tensor.dense = values.tobytes()
            tensor.shape.append(len(values))
    return bytes(message.SerializeToString())

"""Servers on tiny models, and a bare client of their API: what the SDK sends, and nothing else."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from starlette.testclient import TestClient
from tinker.proto import tinker_public_pb2 as pb

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.torch.shared import SharedTorchEngine
from redqueen.models.base import Base
from redqueen.serve.app import ModelServer, ServeSettings
from redqueen.serve.quotas import Quotas
from redqueen.serve.tenants import Keys
from tests.contract.tiny import VOCABULARY, tiny_model

NAMES = tuple(f"t{number}" for number in range(8))
KEYS = Keys(tuple((name, f"tml-secret-{name}") for name in NAMES))
RANK = 4


def shared_engine(tokenizer: Any, slots: int = 8, **config: Any) -> SharedTorchEngine:
    settings = EngineConfig(**{"max_num_seqs": 32, "decode_steps_per_sync": 3, **config})
    base = Base("pawn", tiny_model("llama"), tokenizer)
    return SharedTorchEngine(base, slots, settings, LoraConfig(rank=RANK, alpha=8))


@contextmanager
def serving(
    tokenizer: Any,
    folder: Path,
    slots: int = 8,
    keys: Keys = KEYS,
    quotas: Quotas | None = None,
    members: Any = None,
    **settings: Any,
) -> Iterator[ModelServer]:
    chosen = ServeSettings(
        "tiny",
        folder,
        slots,
        LoraConfig(rank=RANK, alpha=8),
        keys=keys,
        quotas=quotas or Quotas(),
        **settings,
    )
    server = ModelServer(chosen, shared_engine(tokenizer, slots), members)
    try:
        yield server
    finally:
        server.close()


def datum(tokens: Sequence[int], weights: Sequence[float], logprobs: Sequence[float] = ()) -> Any:
    """Tokens, of which each but the first is a target with a weight."""
    message = pb.Datum()
    message.model_input.add().encoded_text.tokens = np.array(tokens[:-1], np.int32).tobytes()
    name = "advantages" if logprobs else "weights"
    rows: dict[str, Any] = {
        "target_tokens": np.array(tokens[1:], np.int64),
        name: np.array(weights, np.float32),
    }
    if logprobs:
        rows["logprobs"] = np.array(logprobs, np.float32)
    for key, row in rows.items():
        tensor = message.loss_fn_inputs[key]
        tensor.dense = row.tobytes()
        tensor.dtype = pb.DTYPE_INT64 if row.dtype == np.int64 else pb.DTYPE_FLOAT32
        tensor.shape.append(len(row))
    return message


def random_data(rng: Random, count: int = 3) -> list[Any]:
    data = []
    for _ in range(count):
        tokens = [rng.randrange(3, VOCABULARY) for _ in range(rng.randint(4, 12))]
        weights = [0.0] + [rng.choice([0.0, 0.5, 1.0]) for _ in tokens[2:]]
        data.append(datum(tokens, weights))
    return data


class Tenant:
    """A client with one model."""

    def __init__(
        self, server: ModelServer, name: str = "t0", rank: int = RANK, seed: int = 1, **config: Any
    ) -> None:
        self.server, self.http = server, TestClient(server.app, raise_server_exceptions=False)
        self.http.headers["X-API-Key"] = f"tml-secret-{name}"
        self.session = self.post("create_session")["session_id"]
        lora = {"rank": rank, "seed": seed, **config}
        made = self.post(
            "create_model",
            session_id=self.session,
            model_seq_id=0,
            base_model="tiny",
            lora_config=lora,
        )
        self.model, self.sequence, self.samplers = made["model_id"], 0, 0

    def post(self, route: str, **body: Any) -> Any:
        response = self.http.post(f"/api/v1/{route}", json=body)
        assert response.status_code == 200, response.text
        return response.json()

    def fetch(self, request_id: str) -> Any:
        while True:
            response = self.http.post("/api/v1/retrieve_future", json={"request_id": request_id})
            if response.status_code != 408:
                assert response.status_code == 200, response.text
                return response
            assert self.server.worker.failure is None

    def forward_backward(
        self,
        data: Sequence[Any],
        loss: str = "cross_entropy",
        forward_only: bool = False,
        **config: float,
    ) -> str:
        message = pb.ForwardBackwardRequest(model_id=self.model, seq_id=self.next(), loss_fn=loss)
        message.forward_only = forward_only
        for name, value in config.items():
            message.loss_fn_config_v2[name].number = value
        message.data.extend(data)
        response = self.http.post("/api/v1/forward_backward", content=message.SerializeToString())
        assert response.status_code == 200, response.text
        return str(response.json()["request_id"])

    def next(self) -> int:
        self.sequence += 1
        return self.sequence

    def command(self, kind: str, **body: Any) -> str:
        return str(self.post(kind, model_id=self.model, seq_id=self.next(), **body)["request_id"])

    def result(self, request_id: str) -> Any:
        """The loss and the log-probabilities, or the JSON."""
        response = self.fetch(request_id)
        if "protobuf" not in response.headers["content-type"]:
            return response.json()
        output = pb.ForwardBackwardOutput.FromString(response.content)
        field = output.loss_fn_outputs[0].fields["logprobs"]
        return output.metrics["loss:sum"], np.frombuffer(field.data, np.float32)

    def train(
        self, data: Sequence[Any], loss: str = "cross_entropy", rate: float = 1e-2, **config: float
    ) -> float:
        """One step; the loss before it."""
        first = self.forward_backward(data, loss, False, **config)
        second = self.command("optim_step", adam_params={"learning_rate": rate})
        value, _ = self.result(first)
        assert "grad_norm" in self.result(second)["metrics"]
        return float(value)

    def loss(self, data: Sequence[Any]) -> float:
        return float(self.result(self.forward_backward(data, forward_only=True))[0])

    def snapshot(self) -> str:
        number, self.samplers = self.samplers, self.samplers + 1
        request = self.command("save_weights_for_sampler", sampling_session_seq_id=number)
        return str(self.result(request)["sampling_session_id"])

    def sample(
        self,
        sampler: str,
        prompt: Sequence[int],
        count: int = 1,
        logprobs: bool = False,
        **params: Any,
    ) -> Any:
        response = self.post(
            "asample",
            sampling_session_id=sampler,
            num_samples=count,
            prompt={"chunks": [{"type": "encoded_text", "tokens": list(prompt)}]},
            sampling_params={"max_tokens": 8, **params},
            prompt_logprobs=logprobs,
        )
        reply = self.fetch(response["request_id"])
        if "protobuf" not in reply.headers["content-type"]:
            return reply.json()
        return pb.SampleResponse.FromString(reply.content)


def tokens_of(response: Any) -> list[list[int]]:
    return [np.frombuffer(one.tokens, np.int32).tolist() for one in response.sequences]


def logprobs_of(response: Any) -> list[list[float]]:
    return [np.frombuffer(one.logprobs, np.float32).tolist() for one in response.sequences]

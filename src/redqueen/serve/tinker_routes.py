"""The routes of Tinker's API, as its SDK calls them."""

import uuid
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from redqueen.serve import tinker_saved as saved
from redqueen.serve.backlog import queue_state
from redqueen.serve.commands import Refused
from redqueen.serve.futures import Future
from redqueen.serve.gate import Call, Gate
from redqueen.serve.tinker_replies import encode_result
from redqueen.serve.tinker_wire import parse_message, read_count, read_metadata, read_shape

_POLL_S = 20.0
"""The SDK gives up a poll after 45 seconds and asks again."""
_PROTOBUF = "application/x-protobuf"
UNSUPPORTED = {
    "create_custom_loss": "server-side custom losses; pass the function to "
    "`forward_backward_custom`, which computes it on the client",
    "copy_weights": "copies between accounts",
    "sessions/search": "the search for sessions; `list_sessions` has all of yours",
    "audit": "audit logs",
    "billing/usage/events": "billing",
    "billing/usage/checkpoints/current": "billing",
    "auth/token": "tokens; keys are sent as they are",
    "join_sampling_session": "joining a sampling session",
}


def tinker_routes(gate: Gate) -> list[Route]:
    def post(path: str, handler: Any, **options: Any) -> Route:
        return Route(f"/api/v1/{path}", gate.route(handler, **options), methods=["POST"])

    def get(path: str, handler: Any, **options: Any) -> Route:
        return Route(f"/api/v1/{path}", gate.route(handler, **options), methods=["GET"])

    run = "training_runs/{model}"
    checkpoint = f"{run}/checkpoints/{{kind}}/{{name}}"
    commands = ("optim_step", "save_weights", "save_weights_for_sampler", "save_weights_external")
    return [
        get("healthz", _health, openly=True),
        post("client/config", _client_config),
        post("client/dynamic_config", _dynamic_config),
        post("telemetry", _telemetry),
        get("get_server_capabilities", _capabilities),
        post("create_session", _create_session),
        post("session_heartbeat", _heartbeat),
        post("create_model", _create_model),
        post("get_info", _get_info),
        post("forward_backward", _forward_backward, is_json=False),
        *(post(name, _command(name)) for name in commands),
        post("load_weights", _load_weights),
        post("weights_info", _weights_info),
        post("create_sampling_session", _create_sampling_session),
        post("asample", _sample),
        post("retrieve_future", _retrieve),
        post("cancel_future", _cancel),
        get("samplers/{sampler}", _sampler),
        get("sessions", _sessions),
        get("sessions/{session}", _one_session),
        post("sessions/{session}/finish", _finish_session),
        get("training_runs", saved.training_runs),
        get(run, saved.training_run),
        get(f"{run}/checkpoints", saved.checkpoints),
        get("checkpoints", saved.all_checkpoints),
        Route(f"/api/v1/{checkpoint}", gate.route(saved.delete), methods=["DELETE"]),
        *(
            Route(f"/api/v1/{path}", gate.route(_unsupported(what)), methods=["GET", "POST"])
            for path, what in UNSUPPORTED.items()
        ),
        Route(
            f"/api/v1/{checkpoint}/{{more:path}}",
            gate.route(_unsupported("publishing, external URLs and changed expiry of checkpoints")),
            methods=["GET", "POST", "PUT", "DELETE"],
        ),
    ]


# the client


async def _health(call: Call) -> Response:
    return JSONResponse({"status": "ok"})


async def _client_config(call: Call) -> Response:
    return JSONResponse({"use_pyqwest_transport": False, "pjwt_auth_enabled": False})


async def _dynamic_config(call: Call) -> Response:
    return JSONResponse({"sample_cancel_enabled": True})


async def _telemetry(call: Call) -> Response:
    """The SDK sends it; nobody here reads it."""
    return JSONResponse({"status": "accepted"})


async def _capabilities(call: Call) -> Response:
    about = {
        "max_context_length": call.service.engine.base.context,
        "trainable": True,
        "sampleable": True,
    }
    names = dict.fromkeys((call.gate.served, call.gate.tokenizer))
    return JSONResponse({"supported_models": [{"model_name": name, **about} for name in names]})


async def _create_session(call: Call) -> Response:
    id_ = await call.run(call.service.sessions.create, call.tenant)
    told = "adapters here are on attention and MLP projections; the unembedding is not trained"
    return JSONResponse({"type": "create_session", "session_id": id_, "info_message": told})


async def _heartbeat(call: Call) -> Response:
    call.service.sessions.heartbeat(call.tenant, call.json["session_id"])
    return JSONResponse({"type": "session_heartbeat"})


async def _sessions(call: Call) -> Response:
    return JSONResponse({"sessions": call.service.sessions.of(call.tenant)})


async def _one_session(call: Call) -> Response:
    id_, service = call.path("session"), call.service
    service.sessions.find(call.tenant, id_)
    models = [one.id for one in service.models_of(call.tenant) if one.session == id_]
    samplers = [one for one in list(service.samplers) if one.startswith(f"{id_}:")]
    return JSONResponse({"training_run_ids": models, "sampler_ids": samplers})


async def _finish_session(call: Call) -> Response:
    await call.run(call.service.sessions.finish, call.tenant, call.path("session"))
    return JSONResponse({})


# models


def _check_base(call: Call, name: Any) -> None:
    if name is not None and name not in (call.gate.served, call.gate.tokenizer):
        raise Refused(
            f"this server has the base '{call.gate.served}'; got {str(name)[:120]!r}. "
            "get_server_capabilities has its name."
        )


async def _create_model(call: Call) -> Response:
    request = call.json
    _check_base(call, request.get("base_model"))
    number = read_count(request, "model_seq_id")
    shape = read_shape(request, uuid.uuid4().int)
    metadata = read_metadata(request)
    model = await call.run(
        call.service.create_model, call.tenant, request["session_id"], number, shape, metadata
    )
    future = call.service.answer_at_once(
        call.tenant, model.request_id(0), {"type": "create_model", "model_id": model.id}
    )
    return _promise(future, model.id)


async def _get_info(call: Call) -> Response:
    model = call.service.model(call.tenant, call.json["model_id"])
    data = {"arch": "lora", "model_name": call.gate.served, "tokenizer_id": call.gate.tokenizer}
    return JSONResponse(
        {
            "type": "get_info",
            "model_id": model.id,
            "model_data": data,
            "is_lora": True,
            "lora_rank": model.shape.rank,
            "model_name": call.gate.served,
        }
    )


async def _forward_backward(call: Call) -> Response:
    def submit() -> Future:
        message = parse_message(call.body)
        return call.service.submit(
            call.tenant, message.model_id, message.seq_id, "forward_backward", call.body
        )

    future = await call.run(submit)
    return _promise(future)


def _command(kind: str) -> Any:
    async def handle(call: Call) -> Response:
        request = call.json
        model_id, sequence = request.get("model_id"), request.get("seq_id")
        future = await call.run(
            call.service.submit, call.tenant, model_id, sequence, kind, call.body
        )
        return _promise(future, str(model_id))

    return handle


async def _load_weights(call: Call) -> Response:
    if call.json.get("session_id") is not None:
        raise Refused("models are created before weights are loaded into them here")
    response: Response = await _command("load_weights")(call)
    return response


async def _weights_info(call: Call) -> Response:
    save = await call.run(call.service.saved, call.tenant, call.json["tinker_path"])
    about = save.about
    return JSONResponse(
        {
            "base_model": call.gate.served,
            "is_lora": True,
            "lora_rank": about["rank"],
            "train_attn": about["train_attn"],
            "train_mlp": about["train_mlp"],
            "train_unembed": False,
        }
    )


# samples


async def _create_sampling_session(call: Call) -> Response:
    request = call.json
    number, path = read_count(request, "sampling_session_seq_id"), request.get("model_path")
    if path is None:
        _check_base(call, request.get("base_model"))
    id_ = await call.run(
        call.service.sampling.create, call.tenant, request["session_id"], number, path
    )
    return JSONResponse({"type": "create_sampling_session", "sampling_session_id": id_})


async def _sampler(call: Call) -> Response:
    id_ = call.path("sampler")
    call.service.sampling.find(call.tenant, id_)
    return JSONResponse({"sampler_id": id_, "base_model": call.gate.tokenizer})


async def _sample(call: Call) -> Response:
    request, service = call.json, call.service
    if request.get("sampling_session_id") is None:
        raise Refused("samples are asked for through a sampling session")
    weights = service.sampling.find(call.tenant, request["sampling_session_id"])
    order = await call.run(call.decoder.sample_order, request)
    future = await call.run(service.sample, call.tenant, weights, order)
    ids = [f"{future.id}:{number}" for number in range(order.count)]
    return JSONResponse({"request_id": future.id, "sample_sequence_ids": ids})


# answers


def _promise(future: Future, model_id: str | None = None) -> Response:
    return JSONResponse({"request_id": future.id, "model_id": model_id})


async def _retrieve(call: Call) -> Response:
    request, service = call.json, call.service
    with service.lock:
        future = service.futures.find(request["request_id"], call.tenant)
    if future is None:
        raise Refused("there is no such request, or its answer was given long ago", 410)
    if not await call.wait(future, _POLL_S):
        with service.lock:
            state, reason = queue_state(service)
        body = {"type": "try_again", "request_id": future.id, "queue_state": state}
        return JSONResponse({**body, "queue_state_reason": reason}, 408)
    assert future.result is not None
    future.fetched = True
    encoded = await call.run(encode_result, future.result)  # it may be large
    if encoded is None:
        return JSONResponse(future.result)
    return Response(encoded, media_type=_PROTOBUF)


async def _cancel(call: Call) -> Response:
    call.service.cancel(call.tenant, call.json["request_id"])
    return Response(status_code=204)


def _unsupported(what: str) -> Any:
    async def handle(call: Call) -> Response:
        raise Refused(f"this server does not support {what}")

    return handle

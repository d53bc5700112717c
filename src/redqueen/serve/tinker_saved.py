"""Routes of Tinker's API for training runs and what they saved."""

from typing import Any

from starlette.responses import JSONResponse, Response

from redqueen.serve.gate import Call
from redqueen.serve.state import Model
from redqueen.serve.store import parse_path, size_of


def _run_of(call: Call, model: Model) -> dict[str, Any]:
    saved = _saved_of(model)
    training = [one for one in saved if one["checkpoint_type"] == "training"]
    return {
        "training_run_id": model.id,
        "base_model": call.gate.served,
        "model_owner": model.tenant,
        "is_lora": True,
        "lora_rank": model.shape.rank,
        "last_request_time": max((one["time"] for one in saved), default="1970-01-01T00:00:00Z"),
        "last_checkpoint": training[-1] if training else None,
        "user_metadata": model.metadata,
    }


def _saved_of(model: Model) -> list[dict[str, Any]]:
    types = {"weights": "training", "sampler_weights": "sampler", "external_weights": "external"}
    saved = [
        {
            "checkpoint_id": f"{one.kind}/{one.name}",
            "checkpoint_type": types[one.kind],
            "time": one.about["time"],
            "tinker_path": f"tinker://{model.id}/{one.kind}/{one.name}",
            "size_bytes": size_of(one.folder),
            "user_metadata": one.about["metadata"],
            "expires_at": one.about["expires_at"],
        }
        for one in model.saved.all()
    ]
    return sorted(saved, key=lambda one: str(one["time"]))


def _page(call: Call, rows: list[Any]) -> tuple[list[Any], dict[str, int]]:
    query = call.request.query_params
    limit, offset = int(query.get("limit", 100)), int(query.get("offset", 0))
    page = rows[max(offset, 0) : max(offset, 0) + max(limit, 0)]
    return page, {"offset": offset, "limit": limit, "total_count": len(rows)}


async def training_runs(call: Call) -> Response:
    models, cursor = _page(call, call.service.models_of(call.tenant))
    runs = await call.run(lambda: [_run_of(call, model) for model in models])
    return JSONResponse({"training_runs": runs, "cursor": cursor})


async def training_run(call: Call) -> Response:
    model = call.service.model(call.tenant, call.path("model"))
    return JSONResponse(await call.run(_run_of, call, model))


async def checkpoints(call: Call) -> Response:
    model = call.service.model(call.tenant, call.path("model"))
    return JSONResponse({"checkpoints": await call.run(_saved_of, model)})


async def all_checkpoints(call: Call) -> Response:
    models = call.service.models_of(call.tenant)
    rows = await call.run(lambda: [one for model in models for one in _saved_of(model)])
    page, cursor = _page(call, rows)
    return JSONResponse({"checkpoints": page, "cursor": cursor})


async def delete(call: Call) -> Response:
    model_id, kind, name = (call.path(part) for part in ("model", "kind", "name"))
    parse_path(f"tinker://{model_id}/{kind}/{name}")
    model = call.service.model(call.tenant, model_id)
    await call.run(model.saved.delete, kind, name)
    return Response(status_code=204)

"""OpenAI's routes for text: `/v1/models`, `/v1/completions`, `/v1/chat/completions`, whole or as a
stream. They sample from members of a run, from saved weights, or from the base."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from redqueen.errors import unknown
from redqueen.serve.chat_prompts import check_length, encode_chat
from redqueen.serve.commands import Refused, SampleOrder
from redqueen.serve.futures import Future
from redqueen.serve.gate import Call, Gate
from redqueen.serve.openai_texts import Texts
from redqueen.serve.state import SamplerWeights
from redqueen.serve.tinker_wire import make_order
from redqueen.tasks.prompts import Prompt

_DEFAULT_TOKENS = 256
_REFUSED = {
    "best_of": 1, "echo": False, "suffix": None, "logit_bias": None, "presence_penalty": 0,
    "frequency_penalty": 0, "tools": None, "functions": None, "response_format": None,
    "top_logprobs": 0, "top_k": -1,
}  # fmt: skip
"""Fields that change the answer and that this server does not know, with the value that is off."""
_COMMON = {
    "model", "n", "max_tokens", "max_completion_tokens", "temperature", "top_p", "stop", "seed",
    "stream", "stream_options", "logprobs", "user", "prompt", "messages", "metadata", "store",
}  # fmt: skip


def openai_routes(gate: Gate) -> list[Route]:
    return [
        Route("/v1/models", gate.route(_models), methods=["GET"]),
        Route("/v1/completions", gate.route(_completions), methods=["POST"]),
        Route("/v1/chat/completions", gate.route(_chat), methods=["POST"]),
    ]


def _names(call: Call) -> dict[str, str | SamplerWeights]:
    """What can be sampled from, and the weights or the path of each."""
    service = call.service
    names: dict[str, str | SamplerWeights] = {call.gate.served: service.base}
    names.update(service.members)
    for model in service.models_of(call.tenant):
        for save in model.saved.all():
            path = f"tinker://{model.id}/{save.kind}/{save.name}"
            names[path] = path
    return names


async def _models(call: Call) -> Response:
    names = await call.run(_names, call)
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "redqueen"} for name in names]
    return JSONResponse({"object": "list", "data": data})


def _weights(call: Call, name: Any) -> SamplerWeights:
    service = call.service
    if isinstance(name, str) and (name in service.samplers or name.startswith("tinker://")):
        if name in service.samplers:
            return service.sampling.find(call.tenant, name)
        return service.sampling.by_path(call.tenant, name)
    names = {call.gate.served: service.base, **service.members}
    if name not in names:
        raise Refused(unknown("model", str(name)[:120], names), 404)
    return names[name]


def _check(request: dict[str, Any]) -> None:
    for name, off in _REFUSED.items():
        if request.get(name) not in (None, off):
            raise Refused(f"{name} is not supported by this server")
    if odd := sorted(set(request) - _COMMON - set(_REFUSED)):
        raise Refused(f"{', '.join(odd)[:200]}: not supported by this server")


async def _completions(call: Call) -> Response:
    request = call.json
    _check(request)
    prompt = request.get("prompt", "")
    prompts = prompt if isinstance(prompt, list) and not _is_tokens(prompt) else [prompt]
    if not 1 <= len(prompts) <= 256:
        raise Refused("a request has 1 to 256 prompts")
    tokens = await call.run(lambda: [_encode_text(call, one) for one in prompts])
    return await _answer(call, request, tokens, chat=False)


def _is_tokens(prompt: list[Any]) -> bool:
    return bool(prompt) and all(type(one) is int for one in prompt)


def _encode_text(call: Call, prompt: Any) -> list[int]:
    if isinstance(prompt, str):
        check_length(call.service.engine, prompt)
        return list(call.service.engine.tokenizer.encode(Prompt(prompt)))
    if isinstance(prompt, list) and _is_tokens(prompt):
        return prompt
    raise Refused("a prompt is a text, a list of token ids, or a list of these")


async def _chat(call: Call) -> Response:
    request = call.json
    _check(request)
    tokens = await call.run(encode_chat, call.service.engine, request.get("messages"))
    return await _answer(call, request, [tokens], chat=True)


# answers


async def _answer(
    call: Call, request: dict[str, Any], prompts: list[list[int]], chat: bool
) -> Response:
    weights = await call.run(_weights, call, request.get("model"))
    orders = [_order(call, request, tokens) for tokens in prompts]
    streams = bool(request.get("stream"))
    pieces: asyncio.Queue[tuple[int, list[int], list[float], str]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    futures: list[Future] = []

    def on_piece(first: int) -> Any:
        def put(number: int, tokens: list[int], logprobs: list[float], finish: str) -> None:
            item = first + number, tokens, logprobs, finish
            with suppress(RuntimeError):  # the loop is closed: the server ends
                loop.call_soon_threadsafe(pieces.put_nowait, item)

        return put

    try:
        for number, order in enumerate(orders):
            told = on_piece(number * order.count) if streams else None
            futures.append(await call.run(call.service.sample, call.tenant, weights, order, told))
        texts = Texts(call.service.engine.tokenizer, request, chat, sum(map(len, prompts)))
        if streams:
            with_usage = bool((request.get("stream_options") or {}).get("include_usage"))
            stream = _stream(futures, pieces, texts, len(orders) * orders[0].count, with_usage)
            return _Stream(stream, lambda: _give_up(call, futures))
        sequences = []
        for future in futures:
            sequences += (await _result(call, future))["sequences"]
        return JSONResponse(texts.whole(sequences))
    except BaseException:  # disconnected, or one of them was refused
        _give_up(call, futures)
        raise


def _give_up(call: Call, futures: list[Future]) -> None:
    for future in futures:
        call.service.cancel(call.tenant, future.id)


class _Stream(StreamingResponse):
    """Whose end is noticed however it comes: of a client that goes before the first event, the
    iterator never begins."""

    def __init__(self, events: AsyncIterator[str], on_end: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self.on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.on_end()


def _order(call: Call, request: dict[str, Any], tokens: list[int]) -> SampleOrder:
    most = request.get("max_completion_tokens") or request.get("max_tokens")
    room = call.service.engine.base.context - len(tokens)
    stop = request.get("stop")
    params = {**request, "max_tokens": most or max(min(_DEFAULT_TOKENS, room), 1), "stop": stop}
    counted = {"num_samples": request.get("n") or 1}
    order = make_order(call.decoder, tokens, params, counted)
    # Here stop texts come beside the end of the model's turn, not instead of it.
    end_tokens = call.service.engine.tokenizer.stops(())[0]
    stops = order.stop_tokens or end_tokens
    return replace(order, stop_tokens=stops, streams=bool(request.get("stream")))


async def _result(call: Call, future: Future) -> dict[str, Any]:
    while not await call.wait(future, 1.0):
        if await call.request.is_disconnected():
            raise Refused("the client has gone", 499)
    result = future.result or {}
    if "error" in result:
        raise Refused(result["error"], 400 if result["category"] == "user" else 500)
    return result


async def _stream(
    futures: list[Future], pieces: Any, texts: Texts, count: int, with_usage: bool
) -> AsyncIterator[str]:
    """Server-sent events: text as soon as it is certain, then [DONE]."""
    running = count
    while running:
        try:
            number, tokens, logprobs, finish = await asyncio.wait_for(pieces.get(), 1.0)
        except TimeoutError:
            failed = [one.result for one in futures if one.result and "error" in one.result]
            if failed:
                error = {"message": failed[0]["error"], "code": 400}
                yield f"data: {json.dumps({'error': error})}\n\n"
                return
            continue
        running -= bool(finish)
        yield f"data: {json.dumps(texts.piece(number, tokens, logprobs, finish))}\n\n"
    if with_usage:
        yield f"data: {json.dumps(texts.usage_piece())}\n\n"
    yield "data: [DONE]\n\n"

"""A tenant that sends much does not hold up one that sends little. Counted in passes and tokens,
not in seconds."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tinker.proto import tinker_public_pb2 as pb

from redqueen.models.base import load_base
from redqueen.serve.app import ModelServer
from redqueen.serve.commands import SampleOrder
from redqueen.serve.shares import Shares, pick, take_turns
from tests.serving import Tenant, datum, random_data, serving

TIGHT = Shares(24, 96)
STEP = b'{"adam_params": {"learning_rate": 0.01}}'


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn", device="cpu").tokenizer


class Passes:
    """Notes every training pass of a server: the tokens of each slot."""

    def __init__(self, server: ModelServer, shares: Shares = TIGHT) -> None:
        server.worker.shares = shares
        self.server, self.seen, self._score = server, list[dict[int, int]](), server.engine.score
        server.engine.score = self  # type: ignore[method-assign]

    def __call__(self, samples: Sequence[Any], *rest: Any, **options: Any) -> Any:
        tokens: dict[int, int] = {}
        for one in samples:
            size = len(one.prompt) + len(one.completion) - 1
            tokens[one.slot] = tokens.get(one.slot, 0) + size
        self.seen.append(tokens)
        return self._score(samples, *rest, **options)


def submit(server: ModelServer, tenant: Tenant, name: str, kind: str, body: bytes) -> Any:
    return server.service.submit(name, tenant.model, tenant.next(), kind, body)


def encode(tenant: Tenant, data: Sequence[Any], loss: str = "cross_entropy") -> bytes:
    message = pb.ForwardBackwardRequest(
        model_id=tenant.model, seq_id=tenant.sequence + 1, loss_fn=loss
    )
    message.data.extend(data)
    return bytes(message.SerializeToString())


def short(count: int) -> list[Any]:
    """Of twelve tokens each."""
    return [datum([5 + n % 40] * 13, [1.0] * 12) for n in range(count)]


def test_shares_are_equal_but_for_what_nobody_else_needs() -> None:
    shares = Shares(floor=100, most=800)
    assert shares.each([]) == 100
    assert shares.each([5000]) == 800  # alone: whoever comes waits for no more than that
    assert shares.each([50]) == 100
    assert shares.each([5000, 300]) == 300
    assert shares.each([5000, 3]) == 100
    assert shares.each([5000, 5000]) == 400
    assert shares.each([5000] * 20) == 100


def test_everybody_has_one_thing_in_a_turn_however_large() -> None:
    picked = pick({"a": [900, 1], "b": [1, 1, 1], "c": []}, lambda size: size, Shares(2, 20))
    assert picked == {"a": [900], "b": [1, 1, 1]}
    taken = take_turns({"a": iter([1, 2, 3]), "b": iter([7])}, 1, 3)
    assert sorted(taken) == [1, 2, 7]


def test_a_small_tenant_waits_for_its_share_of_a_huge_pass(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path) as server:
        passes = Passes(server)
        huge, small = Tenant(server, "t0"), Tenant(server, "t1")
        with server.service.lock:  # so that everything is there when the clock comes
            large = submit(server, huge, "t0", "forward_backward", encode(huge, short(100)))
            steps = []
            for _ in range(4):
                submit(server, small, "t1", "forward_backward", encode(small, short(2)))
                steps.append(submit(server, small, "t1", "optim_step", STEP))
        small.result(steps[-1].id)
        assert not large.done
        loss, _ = huge.result(large.id)
    shared = [one for one in passes.seen if len(one) == 2]
    assert len(shared) == 4 and passes.seen[:4] == shared  # each of its passes is in the next one
    assert all(sorted(one.values()) == [24, 24] for one in shared)
    assert all(sum(one.values()) <= TIGHT.most for one in passes.seen)
    assert sum(sum(one.values()) for one in passes.seen) == 12 * (100 + 4 * 2) and loss > 0


def test_samples_come_between_the_parts_of_a_huge_pass(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path) as server:
        huge, small = Tenant(server, "t0"), Tenant(server, "t1")
        sampler = server.service.samplers[small.snapshot()]
        passes = Passes(server)
        order = SampleOrder((5, 6), 1, 4, stop_tokens=frozenset())
        with server.service.lock:
            large = submit(server, huge, "t0", "forward_backward", encode(huge, short(100)))
            asked = server.service.sample("t1", sampler, order)
            before: list[int] = []
            asked.callbacks.append(lambda: before.append(len(passes.seen)))
        small.fetch(asked.id), huge.fetch(large.id)
        assert before == [1] and len(passes.seen) > 10


def test_a_pass_in_parts_is_the_same_pass(tokenizer: Any, tmp_path: Path) -> None:
    data, seen = random_data(Random(3), 20), []
    for name, shares in (("whole", Shares(10**6, 10**6)), ("parts", Shares(8, 16))):
        with serving(tokenizer, tmp_path / name) as server:
            passes, tenant = Passes(server, shares), Tenant(server)
            losses = [tenant.train(data) for _ in range(3)]
            reply = pb.ForwardBackwardOutput.FromString(
                tenant.fetch(tenant.forward_backward(data)).content
            )
            rows = [
                np.frombuffer(one.fields["logprobs"].data, np.float32)
                for one in reply.loss_fn_outputs
            ]
            seen.append((losses, np.concatenate(rows)))
            assert (len(passes.seen) > 12) == (name == "parts")
    for one, other in zip(*seen, strict=True):
        assert np.allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_part_that_fails_takes_back_the_parts_before_it_and_nothing_else(
    tokenizer: Any, tmp_path: Path
) -> None:
    data, losses = random_data(Random(1)), []
    for fails in (False, True):
        with serving(tokenizer, tmp_path / str(fails)) as server:
            tenant, passes = Tenant(server), Passes(server)
            tenant.result(tenant.forward_backward(data))
            if fails:
                score = passes._score

                def broken(samples: Any, *rest: Any, score: Any = score, **options: Any) -> Any:
                    result = score(samples, *rest, **options)
                    if any(one.prompt[0] == 66 for one in samples):
                        raise ValueError("of an odd value")
                    return result

                passes._score = broken
                bad = [*short(12), datum([66] * 13, [1.0] * 12)]
                assert "odd value" in tenant.result(tenant.forward_backward(bad))["error"]
                assert len(passes.seen) > 2  # its parts before were computed
            tenant.result(tenant.command("optim_step", adam_params={"learning_rate": 1e-2}))
            losses.append(tenant.loss(data))
    assert np.isclose(losses[0], losses[1], atol=1e-6)


def test_gradients_of_models_that_leave_their_slot_are_not_computed_again(
    tokenizer: Any, tmp_path: Path
) -> None:
    losses = []
    for slots in (4, 1):
        with serving(tokenizer, tmp_path / str(slots), slots) as server:
            passes = Passes(server)
            tenants = [Tenant(server, f"t{n}", seed=n) for n in range(3)]
            with server.service.lock:
                asked = [
                    submit(server, one, f"t{n}", "forward_backward", encode(one, short(20)))
                    for n, one in enumerate(tenants)
                ]
            for one, future in zip(tenants, asked, strict=True):
                one.result(future.id)
                one.result(one.command("optim_step", adam_params={"learning_rate": 1e-2}))
            assert sum(sum(one.values()) for one in passes.seen) == 3 * 20 * 12
            losses.append([one.loss(short(20)) for one in tenants])
    assert np.allclose(losses[0], losses[1], rtol=1e-4)


def test_what_is_not_kept_of_a_model_that_left_is_computed_again(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redqueen.serve.slots._PARKED_BYTES", 0)
    with serving(tokenizer, tmp_path / "one", 1) as server:
        passes = Passes(server)
        huge, other = Tenant(server, "t0"), Tenant(server, "t1")
        with server.service.lock:
            asked = submit(server, huge, "t0", "forward_backward", encode(huge, short(20)))
            others = [
                submit(server, other, "t1", "forward_backward", encode(other, short(2)))
                for _ in range(4)
            ]
        huge.result(asked.id), [other.result(one.id) for one in others]
        huge.result(huge.command("optim_step", adam_params={"learning_rate": 1e-2}))
        assert sum(sum(one.values()) for one in passes.seen) > (20 + 4 * 2) * 12
        interrupted = huge.loss(short(20))
    with serving(tokenizer, tmp_path / "plain") as server:
        plain = Tenant(server)
        plain.train(short(20))
        assert np.isclose(plain.loss(short(20)), interrupted, rtol=1e-4)


def test_a_kill_between_two_parts_loses_nothing(tokenizer: Any, tmp_path: Path) -> None:
    first, copy = tmp_path / "first", tmp_path / "copy"
    with serving(tokenizer, first) as server:
        tenant, passes = Tenant(server), Passes(server)
        score = passes._score

        def killed(*given: Any, **options: Any) -> Any:
            if len(passes.seen) == 3:
                shutil.copytree(first, copy, ignore=shutil.ignore_patterns("lock"))
            return score(*given, **options)

        passes._score = killed
        asked = tenant.forward_backward(short(40))
        loss, _ = tenant.result(asked)
    with serving(tokenizer, copy) as server:
        tenant.http = TestClient(server.app, headers={"X-API-Key": "tml-secret-t0"})
        assert np.isclose(tenant.result(asked)[0], loss, rtol=1e-5)


def test_a_tenant_with_many_models_has_one_share(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path) as server:
        passes = Passes(server)
        many = [Tenant(server, "t0", seed=n) for n in range(4)]
        small = Tenant(server, "t1")
        with server.service.lock:
            asked = [
                submit(server, one, "t0", "forward_backward", encode(one, short(20)))
                for one in many
            ]
            own = submit(server, small, "t1", "forward_backward", encode(small, short(2)))
        small.result(own.id)
        assert sorted(passes.seen[0].values()) == [24, 24]
        for one, future in zip(many, asked, strict=True):
            one.result(future.id)


# samples


class Calls:
    """Notes every sampling call: for each request its prompt's length and its limit."""

    def __init__(self, server: ModelServer) -> None:
        self.seen, self._sample = list[list[tuple[int, int]]](), server.engine.sample
        self.watched: list[Any] = []
        self.before: list[list[bool]] = []
        self.after: list[list[bool]] = []
        """Whoever waits for samples is answered before this is noted."""
        server.engine.sample = self  # type: ignore[method-assign]

    def __call__(self, requests: Sequence[Any], *rest: Any, **options: Any) -> Any:
        self.seen.append([(len(one.prompt), one.max_tokens) for one in requests])
        self.before.append([future.done for future in self.watched])
        result = self._sample(requests, *rest, **options)
        self.after.append([future.done for future in self.watched])
        return result


def ask(
    server: ModelServer, name: str, sampler: str, count: int, tokens: int, stop: int = 3
) -> Any:
    order = SampleOrder((5, 6), count, tokens, stop_tokens=frozenset((stop,)), seed=1)
    return server.service.sample(name, server.service.samplers[sampler], order)


def snapshot(server: ModelServer, tenant: Tenant, number: int) -> Any:
    body = f'{{"sampling_session_seq_id": {number}}}'.encode()
    return submit(server, tenant, "t0", "save_weights_for_sampler", body)


def test_everything_short_that_waits_is_done_before_the_samples(
    tokenizer: Any, tmp_path: Path
) -> None:
    with serving(tokenizer, tmp_path) as server:
        busy, other = Tenant(server, "t0"), Tenant(server, "t1")
        sampler = other.snapshot()
        calls, passes = Calls(server), Passes(server)
        with server.service.lock:
            first, second = (
                [
                    submit(server, busy, "t0", "forward_backward", encode(busy, short(2))),
                    submit(server, busy, "t0", "optim_step", STEP),
                    *(snapshot(server, busy, number) for number in numbers),
                ]
                for numbers in (range(6), range(6, 8))
            )
            brief = ask(server, "t1", sampler, 1, 4)
            calls.watched = [*first, *second]
        other.fetch(brief.id)
        # one pass and all that goes with it, however many commands that is; not the next pass
        assert calls.before[0] == [True] * len(first) + [False] * len(second)
        busy.result(second[-1].id)
        assert len(passes.seen) == 2


def test_short_samples_wait_for_a_short_turn_of_long_ones(tokenizer: Any, tmp_path: Path) -> None:
    with serving(tokenizer, tmp_path) as server:
        huge, small = Tenant(server, "t0"), Tenant(server, "t1")
        first, second = huge.snapshot(), small.snapshot()
        calls = Calls(server)
        with server.service.lock:
            long = ask(server, "t0", first, 6, 100)
            brief = ask(server, "t1", second, 2, 4)
            calls.watched = [long, brief]
        small.fetch(brief.id), huge.fetch(long.id)
    assert sorted(calls.seen[0]) == [(2, 4)] * 2 + [(2, 64)] * 6
    assert calls.after[0] == [False, True]  # it was answered before the call was over
    assert all(limit == 36 for call in calls.seen[1:] for _, limit in call)


def test_many_long_prompts_of_one_tenant_are_sampled_a_share_at_a_time(
    tokenizer: Any, tmp_path: Path
) -> None:
    with serving(tokenizer, tmp_path) as server:
        server.worker.runner.shares = Shares(24, 96)
        huge, small = Tenant(server, "t0"), Tenant(server, "t1")
        first, second = huge.snapshot(), small.snapshot()
        calls = Calls(server)
        with server.service.lock:
            long = ask(server, "t0", first, 30, 4)
            brief = ask(server, "t1", second, 1, 4)
        small.fetch(brief.id), huge.fetch(long.id)
    assert len(calls.seen[0]) == 5  # four of six tokens each, and the other's
    assert all(len(call) <= 16 for call in calls.seen)


def test_settings_that_need_calls_of_their_own_take_turns_too(
    tokenizer: Any, tmp_path: Path
) -> None:
    with serving(tokenizer, tmp_path) as server:
        odd, small = Tenant(server, "t0"), Tenant(server, "t1")
        first, second = odd.snapshot(), small.snapshot()
        calls = Calls(server)
        with server.service.lock:
            many = [ask(server, "t0", first, 1, 4, stop) for stop in range(40, 50)]
            brief = [ask(server, "t1", second, 1, 4, stop) for stop in range(60, 62)]
            calls.watched = brief
        for one in brief:
            small.fetch(one.id)
        for one in many:
            odd.fetch(one.id)
    assert [all(done) for done in calls.after].index(True) < 4  # two turns of both
    assert len(calls.seen) == 12


def test_log_probabilities_of_many_prompts_are_computed_a_share_at_a_time(
    tokenizer: Any, tmp_path: Path
) -> None:
    with serving(tokenizer, tmp_path) as server:
        server.worker.runner.shares = Shares(6, 96)
        huge, small = Tenant(server, "t0"), Tenant(server, "t1")
        samplers = [server.service.samplers[one.snapshot()] for one in (huge, small)]
        passes = Passes(server)
        order = SampleOrder((5, 6, 7), 1, 1, stop_tokens=frozenset((3,)), prompt_logprobs=True)
        with server.service.lock:
            many = [server.service.sample("t0", samplers[0], order) for _ in range(10)]
            brief = server.service.sample("t1", samplers[1], order)
        small.fetch(brief.id)
        assert sorted(passes.seen[0].values()) == [2, 4]
        for one in many:
            huge.fetch(one.id)

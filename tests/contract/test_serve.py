"""A server for many tenants: each trains as if it were alone, and sees nothing of the others."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from redqueen.engine.protocol import Loss, OptimizerSettings, TrainSample
from redqueen.errors import ConfigError
from redqueen.models.base import load_base
from redqueen.models.peft_io import load_adapter
from redqueen.serve.app import ModelServer, check_bind
from redqueen.serve.journal import Journal, read_records
from redqueen.serve.quotas import Quotas
from redqueen.serve.tenants import Keys, read_keys
from redqueen.stages.update.losses import BoundLoss, Reinforce
from tests.contract.tiny import VOCABULARY
from tests.serving import (
    KEYS,
    NAMES,
    Tenant,
    datum,
    logprobs_of,
    random_data,
    serving,
    shared_engine,
    tokens_of,
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return load_base("pawn", device="cpu").tokenizer


@pytest.fixture
def server(tokenizer: Any, tmp_path: Path) -> Iterator[ModelServer]:
    with serving(tokenizer, tmp_path / "served") as running:
        yield running


def curve(tenant: Tenant, seed: int, steps: int = 4, loss: str = "cross_entropy") -> list[float]:
    data = random_data(Random(seed))
    return [tenant.train(data, loss) for _ in range(steps)]


def learns(tenant: Tenant) -> bool:
    losses = curve(tenant, 1)
    return losses[-1] < losses[0]


# training


def test_a_tenant_learns_beside_seven_others_as_it_does_alone(
    tokenizer: Any, tmp_path: Path
) -> None:
    def learn(server: ModelServer, number: int) -> list[float]:
        return curve(Tenant(server, NAMES[number], seed=number), number)

    with serving(tokenizer, tmp_path / "one") as server:
        alone = [learn(server, number) for number in (0, 5)]
    with (
        serving(tokenizer, tmp_path / "all", gather_s=0.2) as server,
        ThreadPoolExecutor(8) as threads,
    ):
        together = list(threads.map(lambda number: learn(server, number), range(8)))
        assert max(server.worker.trainer.passes) > 1  # some passes were shared
    assert np.allclose(alone, [together[0], together[5]], rtol=1e-4, atol=1e-5)
    assert all(one[-1] < one[0] for one in together)


def test_losses_are_sums_over_tokens_with_settings_of_the_call(server: ModelServer) -> None:
    tenant = Tenant(server)
    tokens, advantages = [5, 9, 12, 30, 44, 7], [0.0, 0.0, 1.0, -2.0, 0.5]
    _, now = tenant.result(tenant.forward_backward([datum(tokens, [1.0] * 5)], forward_only=True))
    sampled = now - np.array([0.0, 0.0, 0.5, -0.5, 0.01], np.float32)
    ratio, weights = np.exp(now - sampled), np.array(advantages)
    expected = {
        "importance_sampling": -(ratio * weights).sum(),
        "ppo": -np.minimum(ratio * weights, ratio.clip(0.8, 1.2) * weights).sum(),
        "cispo": -(ratio.clip(0.8, 1.2) * weights * now).sum(),
        "dro": -(now * weights - 0.025 * (now - sampled) ** 2).sum(),
    }
    item = datum(tokens, advantages, sampled.tolist())
    for backward in (False, True):
        for name, value in expected.items():
            loss, logprobs = tenant.result(tenant.forward_backward([item], name, not backward))
            assert np.isclose(loss, value, atol=1e-4), name
            assert np.allclose(logprobs, now, atol=1e-4)
    loss, _ = tenant.result(tenant.forward_backward([item], "ppo", True, clip_high_threshold=9.0))
    clipped = np.minimum(ratio * weights, ratio.clip(0.8, 9.0) * weights)
    assert np.isclose(loss, -clipped.sum(), atol=1e-4)


def test_targets_other_than_the_next_tokens_are_scored_as_asked(server: ModelServer) -> None:
    tenant, tokens = Tenant(server), [5, 9, 12, 30, 44]
    plain = tenant.result(tenant.forward_backward([datum(tokens, [1.0] * 4)], forward_only=True))[1]
    other = datum(tokens, [0.0, 1.0, 1.0, 1.0])
    other.loss_fn_inputs["target_tokens"].dense = np.array([0, 12, 30, 44], np.int64).tobytes()
    scored = tenant.result(tenant.forward_backward([other], forward_only=True))[1]
    assert np.allclose(plain[1:], scored[1:], atol=1e-5) and abs(plain[0] - scored[0]) > 1e-3


def test_sampled_and_trained_logprobs_agree(server: ModelServer) -> None:
    tenant = Tenant(server)
    curve(tenant, 3)
    prompt = [5, 9, 12, 30]
    response = tenant.sample(tenant.snapshot(), prompt, 4, logprobs=True, seed=1)
    asked = np.frombuffer(response.prompt_logprobs, np.float32)
    assert np.isnan(asked[0]) and len(asked) == len(prompt)
    for tokens, logprobs in zip(tokens_of(response), logprobs_of(response), strict=True):
        item = datum([*prompt, *tokens], [0.0] * 3 + [1.0] * len(tokens))
        trained = tenant.result(tenant.forward_backward([item]))[1]
        assert np.allclose(trained[3:], logprobs, atol=1e-4)
        assert np.allclose(trained[:3], asked[1:], atol=1e-4)


def test_gradients_of_one_tenant_survive_the_steps_of_another(
    tokenizer: Any, tmp_path: Path
) -> None:
    losses = []
    for interrupted in (False, True):
        with serving(tokenizer, tmp_path / str(interrupted)) as server:
            one, other = Tenant(server, "t0"), Tenant(server, "t1")
            data = random_data(Random(1), 4)
            for part in (data[:2], data[2:]):
                one.result(one.forward_backward(part))
                if interrupted:
                    curve(other, 2, 1)
            one.result(one.command("optim_step", adam_params={"learning_rate": 1e-2}))
            losses.append(one.loss(data))
    assert np.isclose(losses[0], losses[1], atol=1e-5)


def test_more_models_than_slots_take_turns(tokenizer: Any, tmp_path: Path) -> None:
    curves = []
    for slots in (8, 2):
        with serving(tokenizer, tmp_path / str(slots), slots) as server:
            tenants = [Tenant(server, NAMES[n], seed=n) for n in range(5)]
            data = [random_data(Random(n)) for n in range(5)]
            for tenant, own in zip(tenants, data, strict=True):  # gradients that wait, too
                tenant.result(tenant.forward_backward(own))
            curves.append(
                [[t.train(d) for t, d in zip(tenants, data, strict=True)] for _ in range(3)]
            )
    assert np.allclose(curves[0], curves[1], rtol=1e-4, atol=1e-5)


def test_a_model_keeps_its_own_rank_and_projections(server: ModelServer) -> None:
    tenant = Tenant(server, rank=2, train_mlp=False)
    curve(tenant, 1)
    path = tenant.result(tenant.command("save_weights_for_sampler", path="small"))["path"]
    adapter = load_adapter(server.service.saved("t0", path).folder)
    assert adapter.rank == 2 and "gate_proj" not in adapter.targets
    assert all(bool(pair.b.any()) for pair in adapter.projections.values())
    slot = server.worker.trainer.slots.slot_of(server.service.models[tenant.model])
    whole = server.engine.read(slot or 0)
    for name, pair in whole.projections.items():
        rank = 2 if "self_attn" in name else 0
        assert not pair.a[:, rank:].any() and not pair.b[rank:].any()


def test_an_infinite_gradient_fails_its_own_step_only(server: ModelServer) -> None:
    one, other = Tenant(server, "t0"), Tenant(server, "t1")
    data = random_data(Random(1))
    before = one.loss(data)
    huge = datum([5, 9, 12, 30], [3e38] * 3, [-15.0] * 3)
    one.result(one.forward_backward([huge], "importance_sampling"))
    failed = one.result(one.command("optim_step", adam_params={"learning_rate": 1e-2}))
    assert "not finite" in failed["error"] and failed["category"] == "user"
    assert np.isclose(one.loss(data), before) and curve(one, 1)[-1] < before
    assert all(np.isfinite(curve(other, 2)))


# order and refusals


def test_commands_run_in_the_order_of_their_numbers(server: ModelServer) -> None:
    tenant, plain = Tenant(server, "t0"), Tenant(server, "t1")
    data = random_data(Random(1))
    tenant.sequence = 1
    step = tenant.command("optim_step", adam_params={"learning_rate": 1e-2})
    tenant.sequence = 0
    gradients = tenant.forward_backward(data)
    tenant.sequence = 2
    tenant.result(gradients), tenant.result(step)
    plain.train(data)
    assert np.isclose(tenant.loss(data), plain.loss(data), atol=1e-5)


def test_a_repeated_request_is_carried_out_once(server: ModelServer) -> None:
    tenant, data = Tenant(server), random_data(Random(1))
    tenant.forward_backward(data)
    first = tenant.command("optim_step", adam_params={"learning_rate": 1e-2})
    tenant.sequence -= 1
    again = tenant.command("optim_step", adam_params={"learning_rate": 1e-2})
    assert first == again and tenant.result(first) == tenant.result(again)
    assert server.service.models[tenant.model].steps == 1


@pytest.mark.parametrize(
    ("loss", "change", "message"),
    [
        ("stable_reinforce", {}, "not supported"),
        ("os:system", {}, "not supported"),
        ("cross_entropy", {"tokens": [5, VOCABULARY + 3, 7]}, "token ids"),
        ("cross_entropy", {"tokens": [5] * 300}, "context"),
        ("cross_entropy", {"weights": [float("nan")] * 2}, "not finite"),
        ("importance_sampling", {}, "needs advantages, logprobs"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_by_name_and_holds_nothing_up(
    server: ModelServer, loss: str, change: dict[str, Any], message: str
) -> None:
    tenant, tokens = Tenant(server), change.get("tokens", [5, 6, 7])
    item = datum(tokens, change.get("weights", [1.0] * (len(tokens) - 1)))
    failed = tenant.result(tenant.forward_backward([item], loss))
    assert message in failed["error"] and failed["category"] == "user"
    assert learns(tenant)


@pytest.mark.parametrize(
    "body", [{"optimizer_params": [1]}, {"adam_params": {"grad_clip_norm": 10**400}}]
)
def test_a_command_of_an_odd_form_keeps_its_place(
    server: ModelServer, body: dict[str, Any]
) -> None:
    tenant = Tenant(server)
    failed = tenant.result(tenant.command("optim_step", **body))
    assert "expected form" in failed["error"] and failed["category"] == "user"
    assert learns(tenant)


def test_a_loss_by_import_path_needs_leave(tokenizer: Any, tmp_path: Path) -> None:
    path = "tests.outside.things:loss"
    item = datum([5, 9, 12], [1.0, 1.0], [-1.0, -1.0])
    with serving(tokenizer, tmp_path / "no") as server:
        tenant = Tenant(server)
        assert "not supported" in tenant.result(tenant.forward_backward([item], path))["error"]
    with serving(tokenizer, tmp_path / "yes", losses=(path,)) as server:
        tenant = Tenant(server)
        loss, logprobs = tenant.result(tenant.forward_backward([item], path))
        assert np.isclose(loss, -logprobs.sum(), atol=1e-5)


# tenants are apart


def test_nothing_of_one_tenant_can_be_had_by_another(server: ModelServer) -> None:
    one, other = Tenant(server, "t0"), Tenant(server, "t1")
    gradients = one.forward_backward(random_data(Random(1)))
    one.result(gradients)
    sampler = one.snapshot()
    path = one.result(one.command("save_weights", path="mine"))["path"]
    sample = {
        "sampling_session_id": sampler,
        "prompt": {"chunks": [{"tokens": [5, 6]}]},
        "sampling_params": {"max_tokens": 2},
    }
    tries = {
        "retrieve_future": {"request_id": gradients},
        "optim_step": {"model_id": one.model, "seq_id": 9, "adam_params": {}},
        "get_info": {"model_id": one.model},
        "asample": sample,
        "weights_info": {"tinker_path": path},
        "create_sampling_session": {
            "session_id": other.session,
            "sampling_session_seq_id": 5,
            "model_path": path,
        },
        "create_model": {"session_id": one.session, "model_seq_id": 3, "lora_config": {"rank": 2}},
        "session_heartbeat": {"session_id": one.session},
    }
    for route, body in tries.items():
        status = other.http.post(f"/api/v1/{route}", json=body).status_code
        assert status in (404, 410), (route, status)
    places = [
        f"training_runs/{one.model}",
        f"training_runs/{one.model}/checkpoints",
        f"samplers/{sampler}",
        f"sessions/{one.session}",
    ]
    assert {other.http.get(f"/api/v1/{place}").status_code for place in places} == {404}
    assert (
        other.http.delete(f"/api/v1/training_runs/{one.model}/checkpoints/weights/mine").status_code
        == 404
    )
    assert other.http.get("/api/v1/checkpoints").json()["checkpoints"] == []
    assert path not in other.http.get("/v1/models").text
    failed = other.result(other.command("load_weights", path=path, optimizer=True))
    assert "you have no model" in failed["error"]
    assert one.http.get("/api/v1/checkpoints").json()["checkpoints"][0]["tinker_path"] == path


def test_a_wrong_key_gets_nowhere(server: ModelServer) -> None:
    tenant = Tenant(server)
    for key in ("", "tml-secret-t", "tml-secret-t00", "tml-é", KEYS.pairs[0][1].upper()):
        headers: Any = {"X-API-Key": key.encode()}
        for path in ("create_session", "get_info", "asample", "retrieve_future"):
            response = tenant.http.post(f"/api/v1/{path}", json={}, headers=headers)
            assert response.status_code == 401
        assert tenant.http.get("/v1/models", headers=headers).status_code == 401
        assert tenant.http.get("/api/v1/healthz", headers=headers).status_code == 200


def test_names_of_requests_never_become_paths(server: ModelServer, tmp_path: Path) -> None:
    tenant = Tenant(server)
    for name in ("../x", "a/b", "/etc", ".hidden", "", "x" * 200, "a\x00b", "..", None, 5):
        failed = tenant.result(tenant.command("save_weights", path=name))
        assert "no name for a checkpoint" in failed["error"]
    for path in (
        "tinker://../weights/x",
        f"tinker://{tenant.model}/weights/../../x",
        "tinker://a",
        "/etc/passwd",
    ):
        assert "error" in tenant.result(tenant.command("load_weights", path=path, optimizer=False))
    written = {path.name for path in tmp_path.rglob("*")}
    assert not written & {"x", "a", "b", "etc", ".hidden"}


def test_fuzzed_requests_break_nobody(server: ModelServer) -> None:
    rng, tenant, quiet = Random(7), Tenant(server, "t0"), Tenant(server, "t1")
    values = [
        None,
        -1,
        1 << 70,
        0.5,
        "",
        "x",
        "tinker://a/b/c",
        [],
        [None],
        {},
        {"chunks": [{"tokens": ["a"]}]},
        True,
        tenant.model,
    ]
    fields = "model_id seq_id session_id path prompt sampling_params adam_params lora_config model_seq_id request_id messages model stop n max_tokens tinker_path base_model rank tokens".split()
    routes = [
        route for route in server.app.routes if "POST" in (getattr(route, "methods", None) or ())
    ]
    for route in routes:
        for _ in range(6):
            body = {rng.choice(fields): rng.choice(values) for _ in range(rng.randint(0, 6))}
            path = route.path.replace("{", "").replace("}", "")  # type: ignore[attr-defined]
            assert tenant.http.post(path, json=body).status_code < 500, (path, body)
            noise = rng.randbytes(rng.randint(0, 60))
            assert tenant.http.post(path, content=noise).status_code < 500, (path, noise)
    assert learns(quiet)
    tenant.sequence = server.service.models[tenant.model].executed
    assert np.isfinite(curve(tenant, 2)).all()


# quotas


def test_a_tenant_gets_no_more_than_its_quotas(tokenizer: Any, tmp_path: Path) -> None:
    quotas = Quotas(models=1, tokens_in_flight=60, disk_mb=0.2, body_mb=0.01)
    with serving(tokenizer, tmp_path, quotas=quotas) as server:
        tenant = Tenant(server)
        lora = {"rank": 2}
        second = tenant.http.post(
            "/api/v1/create_model",
            json={"session_id": tenant.session, "model_seq_id": 1, "lora_config": lora},
        )
        assert second.status_code == 403 and "models" in second.json()["detail"]
        large = tenant.http.post("/api/v1/telemetry", content=b"x" * 20_000)
        assert large.status_code == 413
        many = {
            "sampling_session_id": tenant.snapshot(),
            "num_samples": 9,
            "prompt": {"chunks": [{"tokens": [5]}]},
            "sampling_params": {"max_tokens": 8},
        }
        assert tenant.http.post("/api/v1/asample", json=many).status_code == 413
        failed = tenant.result(tenant.forward_backward([datum([5] * 40, [1.0] * 39)] * 2))
        assert "in flight" in failed["error"]
        server.service.futures.tokens["t0"] = 58  # as if more were on its way
        busy = tenant.http.post("/api/v1/asample", json={**many, "num_samples": 1})
        assert busy.status_code == 429
        server.service.futures.tokens["t0"] = 0
        saved = [tenant.result(tenant.command("save_weights", path=f"c{n}")) for n in range(6)]
        assert "path" in saved[0] and "Delete saved checkpoints" in saved[-1]["error"]
        assert curve(tenant, 1, 1)


def test_strangers_cannot_train() -> None:
    with pytest.raises(ConfigError, match="keys"):
        check_bind("0.0.0.0", Keys())
    check_bind("0.0.0.0", KEYS)
    check_bind("127.0.0.1", Keys())


def test_keys_are_read_and_checked(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# lab\nada tml-0123456789\n\nbob tml-9876543210\n")
    keys = read_keys(file, ["eve=tml-abcdefghij"])
    assert keys.tenants == ("eve", "ada", "bob")
    assert keys.tenant_of("tml-9876543210") == "bob" and keys.tenant_of("tml-987654321") is None
    assert "tml-" not in repr(keys)
    for line in (
        "../x tml-0123456789",
        "ada short",
        "ada",
        "ada sk-0123456789abc",
        "lock tml-0123456789",
    ):
        file.write_text(line)
        with pytest.raises(ConfigError):
            read_keys(file)


# what is kept


def test_a_sampler_has_the_weights_of_its_moment(server: ModelServer) -> None:
    tenant, prompt = Tenant(server), [5, 9, 12]
    curve(tenant, 1, 2)
    old = tenant.snapshot()
    before = tenant.sample(old, prompt, seed=3, temperature=0.0)
    curve(tenant, 1, 4)
    new = tenant.snapshot()
    after = tenant.sample(old, prompt, seed=3, temperature=0.0)
    assert tokens_of(before) == tokens_of(after)
    assert np.allclose(logprobs_of(before), logprobs_of(after), atol=1e-5)
    fresh = tenant.sample(new, prompt, seed=3, temperature=0.0)
    assert not np.allclose(logprobs_of(fresh)[0][0], logprobs_of(before)[0][0], atol=1e-4)


def test_saved_state_goes_on_as_if_nothing_had_happened(server: ModelServer) -> None:
    tenant, data = Tenant(server), random_data(Random(1))
    for _ in range(3):
        tenant.train(data)
    path = tenant.result(tenant.command("save_weights", path="three"))["path"]
    onward = [tenant.train(data) for _ in range(3)]
    with_optimizer, without = Tenant(server, seed=9), Tenant(server, seed=9)
    for other, optimizer in ((with_optimizer, True), (without, False)):
        assert (
            other.result(other.command("load_weights", path=path, optimizer=optimizer))["path"]
            == path
        )
    assert np.allclose([with_optimizer.train(data) for _ in range(3)], onward, atol=1e-5)
    again = [without.train(data) for _ in range(3)]
    assert np.isclose(again[0], onward[0], atol=1e-5) and not np.isclose(
        again[2], onward[2], atol=1e-4
    )
    twice = tenant.result(tenant.command("save_weights", path="three"))
    assert "overwrite" in twice["error"]
    assert "path" in tenant.result(tenant.command("save_weights", path="three", overwrite=True))
    listed = tenant.http.get(f"/api/v1/training_runs/{tenant.model}/checkpoints").json()[
        "checkpoints"
    ]
    assert [one["checkpoint_id"] for one in listed] == ["weights/three"]
    gone = tenant.http.delete(f"/api/v1/training_runs/{tenant.model}/checkpoints/weights/three")
    assert (
        gone.status_code == 204
        and "nothing at"
        in tenant.result(tenant.command("load_weights", path=path, optimizer=True))["error"]
    )


@pytest.mark.parametrize("optimizer", [True, False])
def test_weights_are_loaded_into_a_model_of_their_own_shape(
    server: ModelServer, optimizer: bool
) -> None:
    """Into another one, projections would be trained that are not saved, or never be trained."""
    shapes: Any = ({}, {"rank": 2}, {"train_mlp": False}, {"train_attn": False})
    tenants = [Tenant(server, **shape) for shape in shapes]
    paths = [one.result(one.command("save_weights", path="own"))["path"] for one in tenants]
    for tenant in tenants:
        for other, path in zip(tenants, paths, strict=True):
            found = tenant.result(tenant.command("load_weights", path=path, optimizer=optimizer))
            if other is tenant:
                assert found["path"] == path
            else:
                assert "was saved with rank" in found["error"], found
        assert learns(tenant)


@pytest.mark.parametrize("checkpoint_every", [2, 100])
def test_a_server_that_was_killed_goes_on_with_every_acknowledged_step(
    tokenizer: Any, tmp_path: Path, checkpoint_every: int
) -> None:
    """What lies on the disk at some moment is what a kill leaves: another server starts from a
    copy."""
    data, other_data = random_data(Random(1)), random_data(Random(2))
    with serving(tokenizer, tmp_path / "first", checkpoint_every=checkpoint_every) as server:
        tenant, other = Tenant(server, "t0"), Tenant(server, "t1", seed=5)
        for _ in range(5):
            tenant.train(data), other.train(other_data)
        sampler = tenant.snapshot()
        tenant.train(data)
        pending = tenant.forward_backward(data)  # a gradient that waits for its step
        scored = tenant.result(pending)
        shutil.copytree(tmp_path / "first", tmp_path / "second")
        expected = tokens_of(tenant.sample(sampler, [5, 9], seed=1, max_tokens=20))
        last = tenant.command("optim_step", adam_params={"learning_rate": 1e-2})
        tenant.result(last)
        losses = tenant.loss(data), other.loss(other_data)
    (tmp_path / "second" / "lock").unlink()
    journal = next((tmp_path / "second" / "t0").rglob("journal"))
    with journal.open("ab") as file:  # cut off in the middle of a record
        file.write(b"\x40\x00\x00\x00abc")
    with serving(tokenizer, tmp_path / "second") as server:
        for one in (tenant, other):
            one.http = type(one.http)(server.app, headers=dict(one.http.headers))
        tenant.sequence -= 2  # the step that the copy has not seen, and the loss after it
        other.sequence -= 1
        assert tenant.result(f"{tenant.model}:0")["model_id"] == tenant.model
        assert np.allclose(tenant.result(pending)[1], scored[1], atol=1e-5)
        assert tokens_of(tenant.sample(sampler, [5, 9], seed=1, max_tokens=20)) == expected
        assert tenant.command("optim_step", adam_params={"learning_rate": 1e-2}) == last
        assert tenant.result(last)["metrics"]["step"] == 7
        assert np.allclose((tenant.loss(data), other.loss(other_data)), losses, atol=1e-4)


def test_a_journal_keeps_whole_records_only(tmp_path: Path) -> None:
    path, records = tmp_path / "journal", [b"a" * 100, b"", b"b" * 10]
    journal = Journal(path)
    journal.append(records)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        kept = list(read_records(path))
        assert kept == records[: len(kept)]
        Journal(path).append([b"next"])
        assert list(read_records(path)) == [*kept, b"next"]
    journal.keep([b"only"])
    journal.append([b"more"])
    assert journal.records() == [b"only", b"more"]


def test_a_folder_of_another_server_is_refused(tokenizer: Any, tmp_path: Path) -> None:
    first = serving(tokenizer, tmp_path)
    with first, pytest.raises(ConfigError, match="locked"), serving(tokenizer, tmp_path):
        pass
    (tmp_path / "server.json").write_text('{"base": "other", "rank": 4, "alpha": 8, "targets": []}')
    with pytest.raises(ConfigError, match="base was other"), serving(tokenizer, tmp_path):
        pass


# the engine


def test_scores_are_those_of_separate_samples(tokenizer: Any) -> None:
    """Completions that share a prompt, targets of their own, and none with a gradient."""
    engine, loss = shared_engine(tokenizer, 2), Loss(BoundLoss("reinforce", Reinforce()), "sum")
    prompt, rng = (5, 9, 12, 30), Random(0)
    samples = [
        TrainSample(slot, prompt, tuple(rng.choices(range(3, 90), k=5)), weight, targets=targets)
        for slot, weight in ((0, 1.0), (0, 0.0), (1, -0.5))
        for targets in ((), (7, 8, 9, 10, 11))
    ]
    together = engine.score(samples, loss, backward=False)
    for number, sample in enumerate(samples):
        alone = engine.score([sample], loss, backward=False).logprobs[0]
        assert len(alone) == 8 and np.allclose(together.logprobs[number], alone, atol=1e-5)
    trained = engine.score(samples, loss, backward=True)
    assert np.allclose(trained.logprobs, together.logprobs, atol=1e-5)
    for slot in (0, 1):
        assert np.isclose(trained.losses[slot], together.losses[slot], atol=1e-4)


def test_a_step_of_some_slots_leaves_the_gradients_of_others(tokenizer: Any) -> None:
    engine, loss = shared_engine(tokenizer, 3), Loss(BoundLoss("reinforce", Reinforce()), "sum")
    samples = [TrainSample(slot, (5, 9), (12, 30), 1.0) for slot in range(3)]
    engine.score(samples, loss, backward=True)
    assert engine.population is not None
    grads, weights = engine.population.grads.clone(), engine.population.weights.clone()
    stats = engine.step_only({1: OptimizerSettings(eps=1e-12)})
    assert set(stats.grad_norms) == {1} and not engine.population.grads[1].any()
    for slot in (0, 2):
        assert engine.population.grads[slot].equal(grads[slot])
        assert engine.population.weights[slot].equal(weights[slot])
    assert not engine.population.weights[1].equal(weights[1])
    engine.clear_gradients([0])
    assert not engine.population.grads[0].any() and engine.population.grads[2].any()


# samples


def test_long_samples_take_turns_that_do_not_show(tokenizer: Any, tmp_path: Path) -> None:
    texts = []
    for turn in (512, 5):
        with serving(tokenizer, tmp_path / str(turn), turn_tokens=turn) as server:
            tenant = Tenant(server)
            response = tenant.sample(
                tenant.snapshot(), [5, 9, 12], 3, seed=4, max_tokens=40, stop=[]
            )
            assert [len(one) for one in tokens_of(response)] == [40] * 3
            texts.append(tokens_of(response))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "change",
    [{"temperature": -1}, {"temperature": 1e-9}, {"top_p": 0}, {"top_k": 5}, {"max_tokens": 0}, {"max_tokens": 1 << 40}, {"stop": [1.5]}, {"seed": "x"}],
)  # fmt: skip
def test_sampling_settings_that_cannot_be_are_refused(
    server: ModelServer, change: dict[str, Any]
) -> None:
    tenant = Tenant(server)
    body = {"sampling_session_id": tenant.snapshot(), "prompt": {"chunks": [{"tokens": [5, 6]}]}}
    response = tenant.http.post(
        "/api/v1/asample", json={**body, "sampling_params": {"max_tokens": 2, **change}}
    )
    assert (
        response.status_code == 400
        and next(iter(change)).split("_")[0] in response.json()["detail"]
    )


def test_the_base_is_what_a_new_adapter_is(server: ModelServer) -> None:
    tenant = Tenant(server)
    made = tenant.post(
        "create_sampling_session",
        session_id=tenant.session,
        sampling_session_seq_id=9,
        base_model="tiny",
    )
    base = tenant.sample(made["sampling_session_id"], [5, 9], temperature=0.0)
    assert tokens_of(base) == tokens_of(tenant.sample(tenant.snapshot(), [5, 9], temperature=0.0))


def test_requests_for_the_same_saved_weights_sit_in_one_slot(server: ModelServer) -> None:
    tenant, slots = Tenant(server), server.worker.trainer.slots

    def save(**more: Any) -> str:
        saved = tenant.result(tenant.command("save_weights_for_sampler", path="own", **more))
        return str(saved["path"])

    def count_slots() -> int:
        return [who.id for who in slots.occupants if who is not None].count(path)

    path = save()
    ask = {"model": path, "prompt": [5, 9], "max_tokens": 2}
    for _ in range(3):
        assert tenant.http.post("/v1/completions", json=ask).status_code == 200
    assert count_slots() == 1
    curve(tenant, 1, 1)
    assert save(overwrite=True) == path
    assert tenant.http.post("/v1/completions", json=ask).status_code == 200
    assert count_slots() == 2  # what replaced them are other weights

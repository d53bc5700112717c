"""How workers begin, wherever they are."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace

from redqueen.engine.blocks.layout import BlockLayout
from redqueen.engine.blocks.supervisor import NoRoom, Supervisor, WorkerDied
from redqueen.engine.protocol import EngineSpec, Tokenizer
from redqueen.errors import ConfigError, EngineError
from redqueen.models.base import load_tokenizer


def worker_spec(spec: EngineSpec, layout: BlockLayout) -> EngineSpec:
    """What every worker makes its engine from: one of a block's slots."""
    config = spec.config.model_copy(
        update={"type": "torch", "block": "all", "threads": spec.config.threads or 1}
    )
    return replace(spec, slots=layout.largest, worlds=(), config=config)


def start(workers: Sequence[Supervisor], spec: EngineSpec) -> Tokenizer:
    """Workers load the base at the same time; the tokenizer is all that is loaded here."""
    try:
        with ThreadPoolExecutor(len(workers)) as threads:
            try:
                # the first load of a packed base unpacks it for all
                alone = 1 if spec.base.endswith(".gguf") else 0
                for group in filter(None, (workers[:alone], workers[alone:])):
                    _start_group(threads, group)
            except BaseException:  # a Ctrl-C, too: nobody waits for bases that are being loaded
                for worker in workers:
                    worker.kill()
                raise
        _check_weights(workers)
    except BaseException:
        for worker in workers:
            worker.close()
        raise
    return load_tokenizer(spec.base, workers[0].hello.end_tokens)


def _start_group(threads: ThreadPoolExecutor, workers: Sequence[Supervisor]) -> None:
    starts = {threads.submit(worker.start): worker.name for worker in workers}
    for done in as_completed(starts):
        try:
            done.result()
        except NoRoom as error:
            raise EngineError(f"{starts[done]} cannot start: {error}") from error
        except WorkerDied as error:
            raise EngineError(f"{starts[done]} died while it loaded the base: {error}") from error


def _check_weights(workers: Sequence[Supervisor]) -> None:
    """Machines may have different files under one name."""
    found = {worker.hello.base.fingerprint: worker for worker in workers}
    if len(found) > 1:
        where = ", ".join(f"{worker.hello.host} {weights}" for weights, worker in found.items())
        raise ConfigError(
            f"workers have different weights of '{workers[0].hello.base.name}': {where}"
        )
    for worker in workers:
        worker.fingerprint = workers[0].hello.base.fingerprint

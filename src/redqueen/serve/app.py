"""Puts a server together: engine, service, the engine's thread, and the HTTP application."""

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from starlette.applications import Starlette

from redqueen.config.engine import EngineConfig, LoraConfig
from redqueen.engine.protocol import EngineSpec
from redqueen.engine.shared import SharedEngine, create_shared_engine
from redqueen.errors import ConfigError
from redqueen.ledger.durable import make_folder
from redqueen.ledger.lock import RunLock
from redqueen.serve.gate import Gate
from redqueen.serve.openai_routes import openai_routes
from redqueen.serve.quotas import Quotas
from redqueen.serve.service import Service
from redqueen.serve.state import SamplerWeights
from redqueen.serve.tenants import Keys
from redqueen.serve.tinker_routes import tinker_routes
from redqueen.serve.tinker_wire import Decoder
from redqueen.serve.worker import Worker

if TYPE_CHECKING:
    from redqueen.models.adapter import Adapter


@dataclass(frozen=True, slots=True)
class ServeSettings:
    base: str
    folder: Path
    slots: int = 16
    lora: LoraConfig = field(default_factory=LoraConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    keys: Keys = field(default_factory=Keys)
    quotas: Quotas = field(default_factory=Quotas)
    losses: tuple[str, ...] = ()
    gather_s: float = 0.1
    checkpoint_every: int = 20
    turn_tokens: int = 512
    tokenizer: str = ""
    """Where clients on this machine find the base's tokenizer."""
    fingerprint: str = ""
    """Of the base, where adapters were trained on it before."""


class ModelServer:
    """A running service and its application. Close it to checkpoint what is in slots."""

    def __init__(
        self,
        settings: ServeSettings,
        engine: SharedEngine | None = None,
        members: "Mapping[str, Adapter] | None" = None,
    ) -> None:
        """`members`: adapters that everybody may sample from, by name."""
        self.settings = settings
        make_folder(settings.folder)
        self._lock = RunLock(settings.folder)
        self._lock.__enter__()
        spec = EngineSpec(
            settings.base,
            settings.slots,
            settings.lora,
            settings.engine,
            settings.device,
            settings.dtype,
            fingerprint=settings.fingerprint,
        )
        self.engine = engine or create_shared_engine(spec)
        base = self.engine.base
        decoder = Decoder(self.engine.vocabulary, base.context, settings.losses)
        self.service = Service(
            self.engine,
            settings.lora,
            settings.folder,
            settings.keys.tenants,
            decoder,
            settings.quotas,
            settings.losses,
            settings.engine.limits.max_num_seqs,
        )
        named = {
            name: SamplerWeights(name, None, adapter=one) for name, one in (members or {}).items()
        }
        self.service.members.update({"base": self.service.base, **named})
        self.worker = Worker(
            self.service,
            gather_s=settings.gather_s,
            turn_tokens=settings.turn_tokens,
            checkpoint_every=settings.checkpoint_every,
        )
        self.gate = Gate(self.service, decoder, settings.keys, settings.base, settings.tokenizer)
        self.app = Starlette(routes=[*tinker_routes(self.gate), *openai_routes(self.gate)])
        self.worker.start()

    def close(self) -> None:
        self.worker.stop()
        self.engine.close()
        self._lock.__exit__(None, None, None)


def is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(host: str, keys: Keys) -> None:
    """Refuse to let strangers train."""
    if not is_local(host) and not keys.pairs:
        raise ConfigError(
            f"--host {host} can be reached from other machines: give tenants keys with --keys FILE "
            "or --key NAME=KEY, or use an SSH tunnel"
        )


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror}. "
            "Choose another with --port; 0 takes any free one."
        ) from error
    return listener


def http_server(server: ModelServer, **options: Any) -> Any:
    """A uvicorn server of the application; it ends when the engine fails."""
    import uvicorn

    from redqueen.serve.connections import PatientProtocol, allow_connections

    allow_connections()
    config = uvicorn.Config(
        server.app,
        http=PatientProtocol,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=3,
        lifespan="off",
        **options,
    )
    http = uvicorn.Server(config)

    def fail(error: BaseException) -> None:
        http.should_exit = True

    server.service.on_failure = fail
    return http

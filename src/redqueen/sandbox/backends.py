"""The table of sandboxes, and how one is opened.

Apart from `protocol`, which zygotes import too: they have the standard library alone.
"""

from collections.abc import Callable

from redqueen.config.registry import Registry
from redqueen.config.sandbox import SandboxConfig
from redqueen.sandbox.protocol import Sandbox

SANDBOXES: Registry[Callable[[SandboxConfig], Sandbox]] = Registry(
    "sandbox",
    {
        "pool": "redqueen.sandbox.pool:SandboxPool",
        "remote": "redqueen.sandbox.remote:RemoteSandbox",
        "ray": "redqueen.sandbox.ray:RaySandbox",
    },
)


def open_sandbox(config: SandboxConfig, beside_gpu: bool = False) -> Sandbox:
    """Start the sandbox of `config.type`. `auto` is `remote` beside a GPU, where a pool and the
    engine in one process would wait for each other's interpreter lock, and `pool` elsewhere."""
    name = config.type
    if name == "auto":
        name = "remote" if beside_gpu else "pool"
    return SANDBOXES[name](config)

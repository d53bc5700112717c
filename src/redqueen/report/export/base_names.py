"""How an export names its base, so that other tools find it, and the licence of that base."""

import re
from pathlib import Path

from redqueen.errors import ConfigError
from redqueen.models.bundled import BUNDLED, place_of
from redqueen.report.run_view import RunView

_HUB_NAME = re.compile(r"(?![.~])[\w.-]+/[\w.-]+")
_LICENSE = re.compile(r"^license: *([\w.-]+) *$", re.MULTILINE)


def name_base(view: RunView, given: str | None, *, portable: bool) -> str:
    """The name of a bundled base or one on the hub, else the absolute path of what is on this
    machine. A portable export has what was given, or a name on the hub: nothing else is found on
    other machines."""
    own = own_base(view)
    if portable and given is None and not _was_on_hub(view, own):
        raise ConfigError(
            f"the base '{own}' has no name on the hub, so that nobody could load the adapter: say "
            "where it is with --base owner/name, or push full weights with --merged"
            + (". `--base pawn` will do for redqueen itself." if own == "pawn" else "")
        )
    base = given or own
    return base if portable or base in BUNDLED else place_of(base)


def own_base(view: RunView) -> str:
    """As the run was given it."""
    return str(view.setting("base", view.about.get("base", "")))


def _was_on_hub(view: RunView, own: str) -> bool:
    """A folder is recorded by its last name, and so by another than it was given by."""
    return is_hub_name(own) and view.about.get("base") == own


def is_hub_name(base: str) -> bool:
    return _HUB_NAME.fullmatch(base) is not None


def license_of_base(base: str) -> str:
    """What the base's own card says, where that is on this machine; else nothing."""
    if not base:
        return ""
    card = BUNDLED.get(base, Path(base).expanduser()) / "README.md"
    if is_hub_name(base) and not card.exists():
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(base, "README.md")
        if not isinstance(cached, str):
            return ""
        card = Path(cached)
    try:
        text = card.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    front_matter = text.split("\n---", 1)[0] if text.startswith("---\n") else ""
    found = _LICENSE.search(front_matter)
    return found[1] if found else ""

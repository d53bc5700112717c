"""The report as one HTML file: style, script and data inside, opened from the disk.

Text that models wrote stays data. It is JSON without any `<`, so that it cannot end its own
element; the script makes text nodes of it, never markup; and the content security policy runs only
our script, by its hash, and loads nothing.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from redqueen import __version__
from redqueen.errors import explain_disk
from redqueen.report.gather import gather_runs
from redqueen.report.run_view import Run, folder_of
from redqueen.report.sample import MAX_CHARS
from redqueen.sandbox import Sandbox

_REPORT = (
    "charts.js",
    "tables.js",
    "python.js",
    "explained.js",
    "figures.js",
    "people.js",
    "problems.js",
    "page.js",
)
_COMPARISON = ("charts.js", "tables.js", "compare.js")
_POLICY = (
    "default-src 'none'; script-src '{hash}'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src {connect}; base-uri 'none'; form-action 'none'"
)
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main id="page"><noscript>This page is drawn by a script. Please allow it.</noscript></main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def report(run: Run | Sequence[Run], out: str | Path) -> Path:
    """Write the report of one or more runs as one HTML file, and return its path.

    - `run`: a folder, a reader, a run that is being played, or a list of these.
    - `out`: the file to write.
    """
    runs = list(run) if isinstance(run, Sequence) and not isinstance(run, str) else [run]
    return write_text(Path(out), report_page(gather_report(runs)))


def gather_report(
    runs: Sequence[Run], max_chars: int = MAX_CHARS, sandbox: Sandbox | None = None
) -> dict[str, Any]:
    """The data of a report: every world of every run. With a sandbox, reasoning is compared with
    execution."""
    return {
        "views": gather_runs(runs, max_chars, sandbox),
        "title": ", ".join(folder_of(run).resolve().name for run in runs),
    }


def report_page(data: dict[str, Any], live: bool = False) -> str:
    """The page of a report; a live one may ask its server for newer data."""
    return _page(data, _REPORT, live)


def comparison_page(data: dict[str, Any]) -> str:
    return _page({**data, "title": "comparison"}, _COMPARISON)


def _page(data: dict[str, Any], scripts: Sequence[str], live: bool = False) -> str:
    script = "\n" + "".join(_web_file(name) for name in scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    connect = "'self'" if live else "'none'"
    return _PAGE.format(
        policy=_POLICY.format(hash=f"sha256-{digest}", connect=connect),
        title=escape(f"Red Queen: {data['title']}", quote=False),
        style=_web_file("page.css"),
        data=to_json({"version": __version__, "live": live, **data}),
        script=script,
    )


def to_json(data: Any) -> str:
    """JSON that may stand inside a script element: no character of it can end the element, or a
    line of script."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def write_text(path: Path, text: str) -> Path:
    """Where that fails, a file that was there stays as it was."""
    part = path.with_name(f".{path.name}.part")
    with explain_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)  # a link there would lead elsewhere
        try:
            with part.open("x", encoding="utf-8") as file:
                file.write(text)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    return path


def _web_file(name: str) -> str:
    return resources.files(__package__).joinpath("web", name).read_text(encoding="utf-8")

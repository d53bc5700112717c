"""The report as one HTML file that needs nothing else: style, script and data inside, opened from
the disk.

What models wrote is data and stays data: it is JSON in which no `<` is left, so that it cannot end
its own element; the script makes text nodes of it, never markup; and the page's policy runs no
script but ours, by its hash, and loads nothing from anywhere.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from redqueen import __version__
from redqueen.report.gather import gather_runs

_REPORT = ("charts.js", "tables.js", "figures.js", "problems.js", "page.js")
COMPARISON = ("charts.js", "tables.js", "compare.js")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '{hash}'; style-src 'unsafe-inline'; img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main id="page"><noscript>This report draws itself with a script; please allow it.</noscript></main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def report_page(folders: Sequence[Path]) -> str:
    """The report of one or more runs."""
    return page({"sides": gather_runs(folders), "title": title_of(folders)})


def title_of(folders: Sequence[Path]) -> str:
    return ", ".join(folder.resolve().name for folder in folders)


def page(data: dict[str, Any], live: bool = False, scripts: Sequence[str] = _REPORT) -> str:
    """The page for these figures; a live one may ask its server for more."""
    script = "\n" + "".join(_file(name) for name in scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _PAGE.format(
        hash=f"sha256-{digest}",
        connect="'self'" if live else "'none'",
        title=_as_text(f"Red Queen: {data['title']}"),
        style=_file("page.css"),
        data=as_json({"version": __version__, "live": live, **data}),
        script=script,
    )


def as_json(data: Any) -> str:
    """JSON that may stand inside a script element: no character of it can end the element, or a
    line of script."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _as_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")

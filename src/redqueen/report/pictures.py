"""The figures of a report as PNG files, photographed in a headless Chromium."""

from pathlib import Path

from redqueen.report.chromium import tab

_WIDTH = 1280


def photograph(page: Path, folder: Path, dark: bool = False) -> list[Path]:
    """One picture for each figure of the page, in twice the resolution of a screen."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with tab() as browser:
        browser.size(_WIDTH, 900, dark, sharpness=2.0)
        browser.open(page.resolve().as_uri())
        browser.wait_for("document.querySelector('#problems') !== null")
        for name in browser.ask(
            "[...document.querySelectorAll('figure')].map(figure => figure.id)"
        ):
            path = folder / f"{name.removeprefix('figure-')}.png"
            browser.photograph(path, f"#{name}")
            made.append(path)
    return made

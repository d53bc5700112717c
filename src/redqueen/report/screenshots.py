"""The figures of a report as PNG files, drawn by a headless Chromium."""

from pathlib import Path

from redqueen.report.chromium import open_tab

_WIDTH = 1280


def screenshot_figures(page: Path, folder: Path, dark: bool = False) -> list[Path]:
    """One PNG per figure of the page, at twice the resolution of a screen."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with open_tab() as tab:
        tab.resize(_WIDTH, 900, dark, pixel_ratio=2.0)
        tab.open(page.resolve().as_uri())
        tab.wait_for("document.querySelector('#problems') !== null")
        for name in tab.evaluate("[...document.querySelectorAll('figure')].map(one => one.id)"):
            path = folder / f"{name.removeprefix('figure-')}.png"
            tab.screenshot(path, f"#{name}")
            paths.append(path)
    return paths

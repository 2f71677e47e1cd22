"""How smoothly a large report is panned: python tests/report/measure_frames.py [points ...]

Prints frames per second, the slowest frame, and how many points were drawn while moving, for the
canvas, for WebGL, and for what the page chooses itself. Not a test: it depends on the machine.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from synthetic_payload import make_large

from conftest import launch_browser
from nearfold.report.page_file import write_page

PAN = """async () => {
    const scatter = window.nearfold.right;
    const [times, drawn] = [[], []];
    await new Promise((done) => {
        let last = performance.now();
        const step = (now) => {
            times.push(now - last);
            last = now;
            drawn.push(scatter.drawn);
            scatter.pan(4 * Math.cos(times.length / 12), 3 * Math.sin(times.length / 12));
            if (times.length < 200) requestAnimationFrame(step);
            else done();
        };
        requestAnimationFrame(step);
    });
    const own = times.slice(20).sort((a, b) => a - b); // after it has found its pace
    const sum = own.reduce((a, b) => a + b, 0);
    const middle = drawn.slice(20).sort((a, b) => a - b)[90];
    const at = (share) => own[Math.floor(share * (own.length - 1))];
    const fps = (1000 * own.length) / sum;
    return { kind: scatter.kind, fps, p95: at(0.95), slowest: at(1), drawn: middle };
}"""


def main() -> None:
    sizes = [int(one) for one in sys.argv[1:]] or [100_000, 200_000]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = launch_browser(playwright)
        for n in sizes:
            path = write_page(make_large(n).payload, Path(folder) / f"{n}.html")
            print(f"{n:,} points, {path.stat().st_size / 1e6:.2f} MB")
            for query in ("", "?canvas", "?webgl"):
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                page.goto(path.as_uri() + query)
                page.wait_for_selector("html[data-ready]", timeout=60_000)
                page.locator("#pictures").scroll_into_view_if_needed()
                page.wait_for_timeout(500)
                found = page.evaluate(PAN)
                print(
                    f"  {query or '(chosen)':9} {found['kind']:7} {found['fps']:5.1f} frames/s, "
                    f"95 % within {found['p95']:.0f} ms, slowest {found['slowest']:.0f} ms, "
                    f"{found['drawn']:,} points while moving"
                )
                page.close()
        browser.close()


if __name__ == "__main__":
    main()

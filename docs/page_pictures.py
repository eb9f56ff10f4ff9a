"""Take the pictures of the server's page that the documentation shows.

    python docs/page_pictures.py runs/phrasebook-en-es

The folder is the model of `make demo`. Needs Chromium.
"""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
CHROMIUM = "/usr/bin/chromium"
PORT = 8299
URL = f"http://127.0.0.1:{PORT}/"
TEXT = "the girl reads in the kitchen\n\nthe cat sleeps in the garden"
SENTENCE = "the cat sleeps in the garden"


def main() -> None:
    """Start the server and take each picture."""
    command = [sys.executable, "-m", "clearhead", "serve", sys.argv[1], "--port", str(PORT)]
    with subprocess.Popen(command) as server, sync_playwright() as playwright:
        try:
            wait_until_ready()
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1200, "height": 760})
            translate(page)
            inside(page)
            browser.close()
        finally:
            server.terminate()


def translate(page: Page) -> None:
    """A translation, with the alternatives of a word."""
    page.goto(URL)
    page.get_by_role("textbox").first.fill(TEXT)
    page.get_by_text("duerme").first.click()
    page.locator(".card .choice").first.wait_for()
    page.screenshot(path=IMAGES / "page-translate.png")


def inside(page: Page) -> None:
    """The diagram of the model with a head that is off."""
    page.set_viewport_size({"width": 1200, "height": 1180})
    page.goto(f"{URL}#view=inside")
    page.locator("#sentence").fill(SENTENCE)
    page.keyboard.press("Enter")
    page.locator(".decoder .cross .head").nth(1).click()
    page.wait_for_timeout(2000)
    page.screenshot(path=IMAGES / "page-inside.png")


def wait_until_ready() -> None:
    """Wait until the server has translated a text."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"{URL}ready")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the server does not start")


if __name__ == "__main__":
    main()

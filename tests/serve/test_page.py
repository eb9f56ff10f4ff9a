"""The page in a browser: every function, the keyboard, errors, hostile texts, no other network."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clearhead.folder.model_folder import write_folder
from clearhead.settings import DataConfig, RunConfig, SearchConfig, TokenizerConfig
from clearhead.tokenizer import tokenizer_files
from exported_models import words, write_random_weights
from hostile import HOSTILE
from model_folders import write_models
from running_server import RunningServer, running
from small_models import small_config

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
WIDE, NARROW = {"width": 1400, "height": 1000}, {"width": 390, "height": 844}
WORDS = {
    "en": "a the dog man woman sleeps barks runs here and old red house .".split(),
    "de": "ein der hund mann frau schläft bellt läuft hier und alt rot haus .".split(),
    "es": "un el perro hombre mujer duerme ladra corre aquí y viejo rojo casa .".split(),
}
TEXT = "the old man sleeps here .\na dog barks and the woman runs ."
KEY = "0123456789abcdef"

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no browser {CHROMIUM}"),
    pytest.mark.slow,
]


def translator(folder: Path, source: str, target: str) -> Path:
    """A translator with random weights, whose outputs have at least four words."""
    model = small_config()
    config = RunConfig(
        data=DataConfig(source_language=source, target_language=target),
        tokenizer=TokenizerConfig(kind="words", joint=False),
        model=model,
        search=SearchConfig(beam_size=2, min_length=4, max_length_ratio=1.0),
    )
    tokenizers = words(WORDS[source]), words(WORDS[target])
    path = folder / f"{source}-{target}"
    write_folder(path, config, tokenizer_files(*tokenizers, False))
    write_random_weights(path, config, tokenizers, seed=4)
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    pairs = ("en", "de"), ("de", "en"), ("en", "es")
    return [*(translator(folder, *pair) for pair in pairs), folder / "texts"]


@pytest.fixture(scope="module")
def page_server(
    folders: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    with running(*folders, storage=tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Any,
    server: RunningServer,
    fragment: str = "#source=en&target=de",
    size: Any = WIDE,
    scheme: str = "light",
    expected: str = "(?!)",
) -> Iterator[Any]:
    """The page; nothing is asked of other servers, and the console has only what is expected."""
    context = browser.new_context(
        viewport=size,
        color_scheme=scheme,
        reduced_motion="reduce",
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
    page.on("popup", lambda popup: wrong.append("a window"))
    page.on(
        "request",
        lambda request: (
            request.url.startswith((server.url, "data:,", "blob:")) or wrong.append(request.url)
        ),
    )
    page.goto(f"{server.url}/{fragment}")
    page.wait_for_selector("main, #key")
    yield page
    assert [each for each in wrong if not re.search(expected, each)] == []
    context.close()


def translated(page: Any, text: str | None = None) -> str:
    """The translation of a text, when it is complete."""
    if text is not None:
        page.fill("#text", text)
    until(page, "document.querySelector('.output .sentence:not(.stale *)') !== null")
    until(page, "!document.querySelector('.output .stale')")
    return page.evaluate("document.querySelector('.output').textContent")


def until(page: Any, condition: str) -> None:
    """Wait for a condition; the page's policy forbids `wait_for_function`."""
    end = time.monotonic() + 30
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.03)


def expected(server: RunningServer, text: str, **others: Any) -> Any:
    body = {"model": "en-de", "text": text, **others}
    return server.post("/v1/translate", body).json["translations"][0]


def violations(page: Any) -> list[str]:
    """What axe finds wrong, with the first element of each."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    options = {
        "resultTypes": ["violations"],
        "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }
    found = axe.Axe().run(page, options=options).response["violations"]
    return [f"{rule['id']}: {rule['nodes'][0]['html']}" for rule in found]


def has_no_wide_body(page: Any) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_text_is_translated_while_it_is_typed(browser: Any, page_server: RunningServer) -> None:
    with opened(browser, page_server) as page:
        page.type("#text", "the man sleeps .", delay=5)
        assert translated(page) == expected(page_server, "the man sleeps .")["text"]
        assert page.text_content("#counter") == "16 / 100,000"
        page.type("#text", " a dog barks .", delay=5)
        assert page.locator(".output .stale .sentence").count() >= 1  # the old one stays
        assert translated(page) == expected(page_server, "the man sleeps . a dog barks .")["text"]
        page.click('"Copy"')
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.evaluate("document.querySelector('.output').textContent")
        page.click('"Clear"')
        until(page, "document.querySelector('.output').textContent === ''")


def test_lines_stay_lines_unless_a_paragraph_was_wrapped(
    browser: Any, page_server: RunningServer
) -> None:
    with opened(browser, page_server) as page:
        lines = translated(page, "a dog\nthe man\n\n  the woman\n").split("\n")
        assert [bool(line.strip()) for line in lines] == [True, True, False, True, False]
        wrapped = f"{'the old man and ' * 5}\nthe dog sleeps ."
        assert "\n" not in translated(page, wrapped)
        mirrored = page.evaluate("document.querySelector('.mirror').textContent")
        assert mirrored == wrapped


def test_only_what_changed_is_translated_again(browser: Any, page_server: RunningServer) -> None:
    lines = [f"{'the old man and the woman ' * 4}{n % 7} ." for n in range(60)]
    with opened(browser, page_server) as page:
        before = translated(page, "\n".join(lines))
        sent: list[int] = []
        page.on("request", lambda request: sent.append(len(request.post_data or "")))
        page.evaluate("""() => {
            const box = document.getElementById('text');
            const at = (box.value.length >> 1) - 20;
            box.setRangeText('a dog ', at, at);
            box.dispatchEvent(new Event('input'));
        }""")
        after = translated(page)
        assert sum(sent) < 3500
        assert len(lines) == len(before.split("\n")) == len(after.split("\n"))
        assert before.split("\n")[0] == after.split("\n")[0]
        text = page.input_value("#text")
        assert after == expected(page_server, text.replace("\n", "\n\n"))["text"].replace(
            "\n\n", "\n"
        )
        assert page.evaluate("document.querySelector('.mirror').textContent") == text


def test_languages_are_chosen_swapped_and_detected(
    browser: Any, page_server: RunningServer
) -> None:
    with opened(browser, page_server) as page:
        first = translated(page, "the man sleeps here .")
        page.select_option('[data-key="target"]', "es")
        until(page, "location.hash.includes('target=es')")
        assert set(translated(page).split()) <= {*WORDS["es"]}
        assert page.is_disabled(".swap")  # there is no es-en
        page.select_option('[data-key="target"]', "de")
        until(page, "location.hash.includes('target=de')")
        assert translated(page) == first
        page.click(".swap")
        assert page.input_value("#text") == first
        assert set(translated(page).split()) <= {*WORDS["en"]}
        page.select_option('[data-key="source"]', "auto")
        page.select_option('[data-key="target"]', "en")
        translated(page, "der alte hund schläft hier und die frau läuft .")
        shown = page.evaluate("document.querySelector('[data-key=source]').selectedOptions[0].text")
        assert "German" in shown


def test_pointing_at_a_word_shows_what_came_from_what(
    browser: Any, page_server: RunningServer
) -> None:
    with opened(browser, page_server) as page:
        translated(page, TEXT)
        page.hover(".output .w >> nth=1")
        page.wait_for_selector(".mirror .partner")
        assert "probability" in page.text_content(".tools .readout")
        word = page.locator(".mirror .partner >> nth=0")
        box = word.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector(".mirror .pointed")
        page.wait_for_selector(".output .partner")
        page.mouse.move(5, 5)
        until(page, "!document.querySelector('.pointed, .partner')")
        # The same with the cursor in the text.
        page.evaluate("document.getElementById('text').setSelectionRange(0, 0)")
        page.focus("#text")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".mirror .pointed")


def test_words_that_are_perhaps_not_translated_are_marked(
    browser: Any, page_server: RunningServer
) -> None:
    with opened(browser, page_server) as page:
        translation = translated(page, "the old red house sleeps .")
        body = {
            "model": "en-de",
            "text": "the old red house sleeps .",
            "translation": translation,
        }
        ranges = page_server.post("/v1/explain", body).json["untranslated"]
        with page.expect_response("**/v1/explain"):
            page.hover(".output .w >> nth=0")
        until(page, f"document.querySelectorAll('.mirror .dropped').length === {len(ranges)}")


def test_the_keyboard_reaches_words_and_their_alternatives(
    browser: Any, page_server: RunningServer
) -> None:
    with opened(browser, page_server) as page:
        translated(page, TEXT)
        page.focus('.output .w[tabindex="0"]')
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):
            page.keyboard.press(key)
        page.wait_for_selector(".mirror .partner")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.dataset.number") == "1"
        page.keyboard.press("Enter")
        page.wait_for_selector(".choice")
        assert page.evaluate("document.activeElement.className") == "choice"
        assert violations(page) == []
        page.keyboard.press("Escape")
        until(page, "!document.querySelector('.card')")  # the event that removes it comes later
        assert page.evaluate("document.activeElement.dataset.number") == "1"
        page.keyboard.press("End")
        last = page.evaluate("document.activeElement.closest('.sentence').textContent")
        assert page.evaluate("document.querySelector('.output').textContent").endswith(last)


def test_an_alternative_begins_the_rest_anew_and_stays(
    browser: Any, page_server: RunningServer
) -> None:
    with opened(browser, page_server) as page:
        translation = translated(page, "the man sleeps here .")
        kept = translation.split()[0]
        page.click(".output .w >> nth=1")
        chosen = page.text_content(".choice:not([aria-current]) .choice-word >> nth=0")
        page.click(".choice:not([aria-current]) >> nth=0")
        until(page, f"document.querySelector('.output').textContent.startsWith('{kept} {chosen}')")
        wanted = expected(page_server, "the man sleeps here .", prefix=f"{kept} {chosen}")["text"]
        assert translated(page) == wanted
        assert page.evaluate("document.activeElement.textContent") == chosen
        page.focus("#text")
        page.keyboard.press("End")
        page.keyboard.type("\na dog")
        assert translated(page).split("\n")[0] == wanted


def test_a_term_is_always_translated_so(browser: Any, page_server: RunningServer) -> None:
    with opened(browser, page_server) as page:
        translated(page, "the man sleeps here .")
        page.click(".output .w >> nth=0")
        page.wait_for_selector(".choice")
        page.click(".card summary")
        page.fill(".card [name=term]", "man")
        page.fill(".card [name=translation]", "haus")
        page.click(".card .term-form button")
        until(page, "!document.querySelector('.card')")
        until(page, "document.querySelector('.output').textContent.includes('haus')")
        page.reload()
        page.wait_for_selector("#text")
        assert "haus" in translated(page, "a man .")
        page.click(".panel-line summary")
        assert "man → haus" in page.text_content(".terms")
        assert violations(page) == []
        page.click(".terms .link")
        translated(page, "a man . a dog .")
        assert page.locator(".terms").count() == 0


def test_documents_are_translated_and_downloaded(
    browser: Any, page_server: RunningServer, tmp_path: Path
) -> None:
    document, wrong = tmp_path / "a letter.txt", tmp_path / "picture.png"
    document.write_text("the man sleeps .\n\na dog barks .\n" * 30)
    wrong.write_bytes(b"\x89PNG")
    with opened(browser, page_server, expected="400") as page:
        page.click(".panel-line summary")
        page.fill(".panel-line [name=term]", "dog")
        page.fill(".panel-line [name=translation]", "haus")
        page.click(".panel-line .term-form button")
        page.wait_for_selector(".terms")
        page.set_input_files("#files", [document, wrong])
        page.wait_for_selector(".files .wrong")
        with page.expect_download() as download:
            page.click("text=Download")
        assert download.value.suggested_filename == "a letter.de.txt"
        found = Path(download.value.path()).read_text()
        assert found.count("\n") == document.read_text().count("\n")
        assert found.count("haus") >= 30
        assert violations(page) == []
        page.click(".files .link >> text=Remove")
        assert page.locator(".files li").count() == 1
        page.evaluate("""() => {
            const files = new DataTransfer();
            files.items.add(new File(["a dog ."], "dropped.md"));
            const drop = new DragEvent("drop", { dataTransfer: files, bubbles: true });
            document.body.dispatchEvent(drop);
        }""")
        page.wait_for_selector("text=Download dropped.de.md")


def test_a_text_is_classified_and_its_words_count(browser: Any, page_server: RunningServer) -> None:
    with opened(browser, page_server, "#view=classify") as page:
        page.fill("textarea", "a b c d")
        page.wait_for_selector(".tinted span")
        found = page_server.post("/v1/classify", {"texts": ["a b c d"], "top": 8}).json
        labels = [each["label"] for each in found["results"][0]["labels"]]
        assert page.locator(".bars tbody th").all_text_contents() == labels
        assert page.locator(".tinted bdi").all_text_contents() == ["a", "b", "c", "d"]
        assert violations(page) == []
        page.click('[data-key="view.translate"]')
        page.wait_for_selector("#text")
        page.click('[data-key="view.classify"]')
        page.wait_for_selector(".classify")
        assert page.input_value("textarea") == "a b c d"


def test_the_text_stays_while_another_view_is_shown(
    browser: Any, page_server: RunningServer
) -> None:
    with opened(browser, page_server) as page:
        translation = translated(page, TEXT)
        page.click('[data-key="view.classify"]')
        page.wait_for_selector(".classify")
        page.go_back()
        page.wait_for_selector("#text")
        assert page.input_value("#text") == TEXT
        assert translated(page) == translation


def test_an_api_key_is_asked_for(browser: Any, folders: list[Path], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"anna: {KEY}\n")
    settings: Any = {"storage": tmp_path / "store", "keys": str(tmp_path / "keys")}
    with (
        running(*folders[:1], **settings) as server,
        opened(browser, server, "", expected="401") as page,
    ):
        page.wait_for_selector("#key")
        assert violations(page) == []
        page.fill("#key", "a wrong one")
        page.keyboard.press("Enter")
        page.wait_for_selector("#key-note.wrong")
        page.fill("#key", KEY)
        page.keyboard.press("Enter")
        page.wait_for_selector("#text")
        assert translated(page, "a dog .")
        page.reload()
        page.wait_for_selector("#text")


def test_the_page_waits_for_a_busy_server_and_for_one_that_is_gone(
    browser: Any, page_server: RunningServer
) -> None:
    with opened(browser, page_server, expected="503|Failed to load|ERR_FAILED") as page:
        answers = ["busy", "gone"]

        def handle(route: Any) -> None:
            match answers.pop(0) if answers else "":
                case "busy":
                    body = '{"error": {"what": "the server is busy"}}'
                    route.fulfill(status=503, headers={"retry-after": "1"}, body=body)
                case "gone":
                    route.abort()
                case _:
                    route.continue_()

        page.route("**/v1/translate/stream", handle)
        page.fill("#text", "a dog .")
        page.wait_for_selector(".banner >> text=busy")
        page.wait_for_selector(".banner >> text=does not answer")
        assert translated(page) == expected(page_server, "a dog .")["text"]
        assert not page.is_visible(".banner")


def test_errors_are_shown_where_they_belong(
    browser: Any, folders: list[Path], tmp_path: Path
) -> None:
    with (
        running(*folders[:1], storage=tmp_path, characters=50) as server,
        opened(browser, server, "", expected="400") as page,
    ):
        page.fill("#text", "a dog . " * 10)
        page.wait_for_selector(".counter.over")
        time.sleep(0.5)
        assert page.evaluate("document.querySelector('.output').textContent.trim()") == ""
        page.route(
            "**/v1/translate/stream",
            lambda route: route.fulfill(status=400, body='{"error": {"what": "it is <b>bad</b>"}}'),
        )
        page.fill("#text", "a dog .")
        page.wait_for_selector(".problem >> text=it is <b>bad</b>")
        assert violations(page) == []
        page.unroute("**/v1/translate/stream")
        page.click("text=Try again")
        assert translated(page)
        assert page.text_content(".problem") == ""


def test_warnings_are_listed_and_a_text_is_adapted(
    browser: Any, page_server: RunningServer
) -> None:
    with opened(browser, page_server) as page:
        page.route(
            "**/v1/translate/stream",
            lambda route: route.fulfill(
                status=200,
                content_type="text/event-stream",
                body='event: part\ndata: {"source": "A dog .", "text": "x", "sentences": [], '
                '"warnings": [{"kind": "characters", "text": "has a strange A"}], '
                '"detected": null}\n\nevent: done\ndata: {}\n\n',
            ),
        )
        page.fill("#text", "A dog .")
        page.wait_for_selector(".notes >> text=has a strange A")
        with page.expect_request("**/v1/translate/stream") as request:
            page.click("text=Adapt it")
        assert '"normalise":true' in request.value.post_data
        assert page.is_checked('[data-key="normalise"]')


def test_ten_thousand_words_stay_responsive(browser: Any, page_server: RunningServer) -> None:
    line = "the old man sleeps here and a dog barks and the woman runs ."
    text = "\n".join(line for _ in range(770))
    with opened(browser, page_server) as page:
        page.evaluate("text => navigator.clipboard.writeText(text)", text)
        page.focus("#text")
        assert seconds(page, "Control+V") < 1.5
        assert seconds(page, "x") < 0.5  # while it is translated
        assert len(translated(page).split("\n")) == 770
        page.evaluate("document.getElementById('text').setSelectionRange(20000, 20000)")
        keys = sorted(seconds(page, key) for key in "abcdefghi")
        assert keys[4] < 0.3
        assert page.locator("*").count() < 5000
        heights = page.evaluate(
            "[...document.querySelectorAll('.layers > *')].map((each) => each.scrollHeight)"
        )
        assert heights[0] == heights[1]  # the mirror has the line breaks of the text


def seconds(page: Any, key: str) -> float:
    """The time from a key until the page has been drawn."""
    begin = time.monotonic()
    page.keyboard.press(key)
    page.evaluate("new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")
    return time.monotonic() - begin


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(
    browser: Any, page_server: RunningServer, size: Any, scheme: str
) -> None:
    with opened(browser, page_server, size=size, scheme=scheme) as page:
        assert violations(page) == []
        translated(page, TEXT)
        page.focus('.output .w[tabindex="0"]')
        page.wait_for_selector(".partner")
        assert violations(page) == []
        assert has_no_wide_body(page)
        if folder := os.environ.get("CLEARHEAD_PICTURES"):
            page.screenshot(path=f"{folder}/page-{scheme}-{size['width']}.png", full_page=True)
        page.keyboard.press("Enter")
        page.wait_for_selector(".choice")
        assert violations(page) == []
        assert has_no_wide_body(page)


def test_the_theme_is_chosen_and_remembered(browser: Any, page_server: RunningServer) -> None:
    with opened(browser, page_server) as page:
        page.click("button.theme")
        page.reload()
        page.wait_for_selector("#text")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_hostile_texts_are_texts(browser: Any, page_server: RunningServer) -> None:
    text = "\n".join(HOSTILE)
    with opened(browser, page_server) as page:
        page.fill("#text", text)
        value = page.input_value("#text")
        until(page, "!document.querySelector('.output .stale')?.textContent")
        until(page, "document.querySelector('.output').textContent.trim() !== ''")
        assert page.evaluate("document.querySelector('.mirror').textContent") == value
        for number in range(0, page.locator(".output .sentence").count(), 7):
            page.hover(f".output .sentence >> nth={number}", force=True)
        assert page.locator("main script, main img, main iframe").count() == 0


def test_without_inspection_nothing_is_asked_about_words(
    browser: Any, folders: list[Path], tmp_path: Path
) -> None:
    with (
        running(*folders[:1], storage=tmp_path, inspect=False) as server,
        opened(browser, server, "") as page,
    ):
        translated(page, "a dog .")
        page.click(".output .w >> nth=0")
        page.wait_for_selector(".card .term-form")
        assert page.locator(".choice").count() == 0
        assert page.locator("nav a").count() == 1

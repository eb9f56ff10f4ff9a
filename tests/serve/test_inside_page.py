"""The view "Look inside" in a browser: every function, the keyboard, axe, hostile texts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import clearhead
from clearhead.api import Translator, load_classifier, load_translator
from clearhead.folder.model_folder import CHECKPOINTS, WEIGHTS
from clearhead.folder.tensors import read_tensors
from exported_models import random_folder
from hostile import HOSTILE
from model_folders import replace_tensors, write_models
from running_server import RunningServer, running

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
WIDE, NARROW = {"width": 1400, "height": 1000}, {"width": 390, "height": 844}
TEXT = "s1 s2 s3 s4"
STEPS = 8

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no browser {CHROMIUM}"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two translators, the first with checkpoints, and a classifier."""
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    first, second = (random_folder(folder / f"model-{seed}", seed=seed) for seed in (1, 2))
    (first / CHECKPOINTS).mkdir(parents=True)
    for seed in (2, 3):
        other = second if seed == 2 else random_folder(folder / "earlier", seed=seed)
        name = f"{CHECKPOINTS}/step-{seed:08}.safetensors"
        replace_tensors(first, name, read_tensors(other / WEIGHTS)[0], {"step": seed})
    return folder


@pytest.fixture(scope="module")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folders = [folder / name for name in ("model-1", "model-2", "texts")]
    with running(*folders, storage=tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture(scope="module")
def translator(folder: Path) -> Translator:
    return load_translator(folder / "model-1", device="cpu")


READY = """() => document.querySelector('.inside:not(.waiting) .inside-report:not(.old) .picture')
    && !document.querySelector('.model-grid[data-old]')"""


@contextmanager
def opened(
    browser: Any,
    server: RunningServer,
    size: Any = WIDE,
    scheme: str = "light",
    allowed: str = "^$",
    **state: str,
) -> Iterator[Any]:
    """The view with a state; nothing else may be requested, and the console must stay empty."""
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(20_000)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
    page.on(
        "request",
        lambda request: request.url.startswith((server.url, "data:,")) or wrong.append(request.url),
    )
    page.goto(f"{server.url}/#{urlencode({'view': 'inside', **state})}")
    if state.get("text"):
        page.wait_for_function(READY)
    yield page
    assert [each for each in wrong if not re.search(allowed, each)] == []
    context.close()


def after(page: Any, action: Callable[[], Any]) -> None:
    """Wait until the page has drawn everything anew after an action."""
    page.evaluate("document.querySelector('.model-grid').dataset.old = '1'")
    action()
    page.wait_for_function(READY)


def click(page: Any, key: str) -> None:
    after(page, lambda: page.click(f'[data-key="{key}"]'))


def headline(page: Any) -> tuple[str, str]:
    """The sentence with its output and the probability."""
    return page.text_content(".inside-result h1"), page.text_content(".inside-result .lead")


def chips(page: Any) -> list[str]:
    return page.locator(".switched-off li").all_text_contents()


def percent(probability: float) -> str:
    """As `numbers.js` writes it, for probabilities that are neither small nor large."""
    value = 100 * probability
    return f"{value:.0f}\u202f%" if value >= 9.95 else f"{value:.1f}\u202f%"


def violations(page: Any) -> list[str]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    options = {"resultTypes": ["violations"]}
    found = axe.Axe().run(page, options=options).response["violations"]
    return [f"{rule['id']}: {rule['nodes'][0]['html']}" for rule in found]


def has_no_wide_body(page: Any) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def shown_probability(best: Any) -> str:
    probability = math.exp(best.score)
    return percent(probability) if probability >= 5e-4 else "<\u202f0.1\u202f%"


def test_a_head_that_is_switched_off_changes_the_headline(
    browser: Any, served: RunningServer, translator: Translator
) -> None:
    best = translator.translate([TEXT])[0][0]
    with clearhead.edit(translator) as e:
        e.scale("decoder.1.cross.2", 0.0)
        without = translator.translate([TEXT])[0][0]
    assert without.score != best.score
    with opened(browser, served, text=TEXT) as page:
        first = headline(page)
        assert first[0] == f"{TEXT} → {best.text}"
        assert shown_probability(best) in first[1]
        click(page, "head.decoder.1.cross.2")
        title, lead = headline(page)
        assert title == f"{TEXT} → {without.text}"
        assert shown_probability(without) in lead
        assert shown_probability(best) in lead
        assert chips(page) == ["cross 1, head 2 ×"]
        switch = page.locator('[data-key="head.decoder.1.cross.2"]')
        assert switch.get_attribute("aria-checked") == "false"
        assert page.evaluate("document.activeElement.dataset.key") == "head.decoder.1.cross.2"
        click(page, "head.encoder.2.self.1")
        assert len(chips(page)) == 2
        click(page, "chip.0")
        assert chips(page) == ["encoder 2, head 1 ×"]
        click(page, "undo")
        assert (headline(page), chips(page)) == (first, [])
        after(page, page.go_back)
        assert chips(page) == ["encoder 2, head 1 ×"]


def test_words_positions_and_cells_are_switched_off(
    browser: Any, served: RunningServer, translator: Translator
) -> None:
    with opened(browser, served, text=TEXT, look="decoder.2.cross.1") as page:
        click(page, "word.1")
        with clearhead.edit(translator) as e:
            e.hide(1)
            assert headline(page)[0].endswith(f"→ {translator.translate([TEXT])[0][0]}")
        assert page.text_content(".inside-result s") == "s2"
        click(page, "positions")
        assert chips(page) == ["word: s2 ×", "positions ×"]
        click(page, "undo")
        click(page, "cell.0.2")
        with clearhead.edit(translator) as e:
            e.knockout("decoder.2.cross.1", 0, 2)
            assert headline(page)[0].endswith(f"→ {translator.translate([TEXT])[0][0]}")
        assert page.get_attribute('[data-key="cell.0.2"]', "aria-pressed") == "true"
        assert chips(page)[0].startswith("cross 2, head 1: ")
        click(page, "cell.0.2")
        assert chips(page) == []
        click(page, "look.encoder.1.self")
        assert page.text_content(".attention-table h3").startswith("Encoder self-attention")
        click(page, "cell.1.0")
        assert chips(page) == ["encoder 1, all heads: s2 → s1 ×"]


def test_the_diagram_has_the_layers_and_effects_of_the_model(
    browser: Any, served: RunningServer, translator: Translator
) -> None:
    best = translator.translate([TEXT])[0][0]
    found = clearhead.explain(translator, TEXT, best)
    effects = dict(zip(found.heads, found.by_head[..., 0].sum(axis=1), strict=True))
    with opened(browser, served, text=TEXT) as page:
        names = page.eval_on_selector_all(".head", "heads => heads.map(h => h.dataset.name)")
        assert sorted(names) == sorted(effects)
        name = max(effects, key=lambda each: abs(effects[each]))
        page.hover(f'[data-name="{name}"]')
        said = page.text_content(".model-notes .readout")
        assert f"{abs(effects[name]):.2f}" in said
        assert ("falls" if effects[name] > 0 else "rises") in said
        assert page.locator(".wires path").get_attribute("d").count("l6 4") == 2


def test_decoding_goes_step_by_step(
    browser: Any, served: RunningServer, translator: Translator
) -> None:
    with opened(browser, served, text=TEXT) as page:
        titles = page.locator(".path h3").all_text_contents()
        assert titles == ["Beam of 5", "Greedy search"]
        count = int(re.findall(r"of (\d+)", page.text_content(".inside .stepper"))[0])
        assert page.is_disabled('[data-key="back"]')
        page.click('[data-key="next"]')
        assert f"Step 2 of {count}" in page.text_content(".inside .stepper")
        best = page.locator(".path >> nth=1").locator("tbody tr th").first.text_content()
        words = translator.translate([TEXT], beam_size=1)[0][0].text.split()
        assert best == words[1]
        page.click('[data-key="back"]')
        page.click('[data-key="play"]')
        page.wait_for_function(
            "() => document.querySelector('.stepper').textContent.includes('Step 3')"
        )
        page.click('[data-key="play"]')
        page.focus('[data-key="beam"]')
        after(page, lambda: page.keyboard.press("Home"))
        assert page.locator(".path h3").all_text_contents() == ["Greedy search"]
        page.focus('[data-key="temp"]')
        after(page, lambda: page.keyboard.press("End"))
        assert page.locator(".path h3").all_text_contents()[0] == "Drawn at temperature 2.0"
        drawn = translator.translate([TEXT], method="sampling", temperature=2.0, seed=1)[0][0]
        assert headline(page)[0].endswith(f"→ {drawn}")
        click(page, "draw")
        drawn = translator.translate([TEXT], method="sampling", temperature=2.0, seed=2)[0][0]
        assert headline(page)[0].endswith(f"→ {drawn}")


def test_checkpoints_are_chosen_with_a_slider(
    browser: Any, served: RunningServer, folder: Path
) -> None:
    second = load_translator(folder / "model-2", device="cpu")
    with opened(browser, served, text=TEXT) as page:
        final = headline(page)
        page.focus('[data-key="checkpoint"]')
        after(page, lambda: page.keyboard.press("Home"))
        assert headline(page)[0].endswith(f"→ {second.translate([TEXT])[0][0]}")
        page.click('[data-key="all-checkpoints"]')
        page.wait_for_function(
            "() => [...document.querySelectorAll('.inside-training tbody tr')].length == 3 "
            "&& !document.querySelector('.inside-training').textContent.includes('…')"
        )
        rows = page.locator(".inside-training tbody tr th").all_text_contents()
        assert rows == ["step 2", "step 3", "final"]
        page.focus('[data-key="checkpoint"]')
        after(page, lambda: page.keyboard.press("End"))
        assert headline(page) == final
    with opened(browser, served, text=TEXT, model="model-2") as page:
        assert page.locator('[data-key="checkpoint"]').count() == 0


def test_two_models_are_side_by_side(browser: Any, served: RunningServer, folder: Path) -> None:
    other = load_translator(folder / "model-2", device="cpu").translate([TEXT])[0][0]
    with opened(browser, served, text=TEXT) as page:
        after(page, lambda: page.select_option('[data-key="beside"]', "model-2"))
        assert other.text in page.text_content(".beside")
        panels = page.locator(".inside-report .panel")
        assert panels.locator(".summary h2").all_text_contents() == ["model-1", "model-2"]
        options = page.locator('[data-key="beside"] option').all_text_contents()
        assert "texts" not in options


def test_every_view_of_the_report_is_drawn(browser: Any, served: RunningServer) -> None:
    with opened(browser, served, text=TEXT, off="decoder.1.self.1") as page:
        for view in ("matrix", "layer", "beam", "experiments", "words"):
            page.click(f'[data-key="view.{view}"]')
            page.wait_for_selector(f'[data-key="view.{view}"][aria-current="page"]')
            assert page.locator(".inside-report .warning").count() == 0
            assert page.locator(".inside-report h3").count() > 0
            assert chips(page) == ["decoder 1, head 1 ×"]
        page.click('.inside-report [data-key="output.1"]')
        page.wait_for_selector('.inside-report [data-key="output.1"][aria-pressed="true"]')
        assert f"text={TEXT.replace(' ', '+')}" in page.url


def test_a_classifier_shows_its_labels(browser: Any, served: RunningServer, folder: Path) -> None:
    classifier = load_classifier(folder / "texts", device="cpu")
    with opened(browser, served, model="texts", text="a b d") as page:
        (labels,) = classifier.classify(["a b d"], top=3)
        assert headline(page)[0] == f"a b d → {labels[0].label}"
        assert page.locator(".labels li").count() == 3
        assert page.locator(".decoder, .inside-decoding h2").count() == 0
        click(page, "word.2")
        with clearhead.edit(classifier) as e:
            e.hide(2)
            (labels,) = classifier.classify(["a b d"], top=3)
        assert headline(page)[0] == f"a b d → {labels[0].label}"
        assert page.locator(".labels li > span:first-child").all_text_contents() == [
            each.label for each in labels
        ]


@pytest.mark.parametrize(("model", "text"), [("model-1", TEXT), ("texts", "a b d c")])
def test_the_tour_has_eight_steps_with_a_question_each(
    browser: Any, served: RunningServer, model: str, text: str
) -> None:
    with opened(browser, served, model=model, text=text) as page:
        click(page, "tour")
        titles = set()
        for number in range(1, STEPS + 1):
            page.wait_for_selector(".inside-tour .question")
            assert f"{number} of {STEPS}" in page.text_content(".tour-number")
            titles.add(page.text_content(".inside-tour h2"))
            assert page.text_content(".question").strip().endswith(("?", ".", "changes?"))
            right = 0
            for option in page.locator(".options button").all():
                option.click()
                page.wait_for_selector('.options [aria-pressed="true"]')
                right += page.locator(".is-right").count()
            if page.locator(".options button").count():
                assert right >= 1
            page.click("[data-key=tour-explanation]")
            assert len(page.text_content(".inside-tour details p")) > 20
            if number < STEPS:
                click(page, "tour-next")
        assert len(titles) == STEPS
        click(page, "tour-end")
        assert not page.is_visible(".inside-tour")


def test_the_tour_reacts_to_what_the_reader_does(
    browser: Any, served: RunningServer, translator: Translator
) -> None:
    best = translator.translate([TEXT])[0][0]
    found = clearhead.explain(translator, TEXT, best)
    effects = dict(zip(found.heads, found.by_head[..., 0].sum(axis=1), strict=True))
    most, *_, least = sorted(effects, key=lambda name: -effects[name])
    with opened(browser, served, text=TEXT, tour="2") as page:
        assert "No head is off" in page.text_content(".verdict")
        click(page, f"head.{least}")
        assert f"number {len(effects)} of {len(effects)}" in page.text_content(".verdict")
        click(page, "undo")
        click(page, f"head.{most}")
        assert "No other head counts as much" in page.text_content(".verdict")
        click(page, "tour-next")  # a new step begins with nothing switched off
        assert chips(page) == []
        click(page, "positions")
        with clearhead.edit(translator) as e:
            e.without_positions("source")
            without = translator.translate([TEXT])[0][0]
        assert without.text in page.text_content(".tour-body")
        for _ in range(2):
            click(page, "tour-next")
        click(page, "hide-all")
        assert len(chips(page)) == len(TEXT.split())
        assert "Without the source" in page.text_content(".tour-body")
        click(page, "tour-next")
        click(page, "tour-next")
        page.click('[data-key="tour-there"]')
        page.focus('[data-key="beam"]')
        after(page, lambda: page.keyboard.press("Home"))
        assert "greedy now" in page.text_content(".tour-body")


def test_typing_looks_again(browser: Any, served: RunningServer, translator: Translator) -> None:
    refused = "Failed to load resource.*413"
    with opened(browser, served, allowed=refused) as page:
        page.wait_for_selector("h1")
        assert page.locator(".model-grid").count() == 0
        page.fill("#sentence", TEXT)
        page.wait_for_function(READY)
        assert headline(page)[0].startswith(f"{TEXT} → ")
        click(page, "word.0")
        after(page, lambda: page.fill("#sentence", "s5 s6"))
        assert headline(page)[0] == f"s5 s6 → {translator.translate(['s5 s6'])[0][0]}"
        assert chips(page) == []  # words of another sentence are others
        page.fill("#sentence", "s1 " * 201)
        page.wait_for_selector(".warning[role=alert]:not([hidden])")
        assert "tokens" in page.text_content(".inside > .warning")
        after(page, lambda: page.fill("#sentence", TEXT))
        assert not page.is_visible(".inside > .warning")
        page.fill("#sentence", " ")
        page.wait_for_selector(".model-grid", state="detached")


def test_a_long_sentence_has_no_details_but_an_output(browser: Any, served: RunningServer) -> None:
    with opened(browser, served, allowed="413", text="") as page:
        page.fill("#sentence", "s1 " * 61)
        page.wait_for_selector(".warning[role=alert]:not([hidden])")
        assert "60" in page.text_content(".inside > .warning")
        assert page.locator(".path").count() == 2


def test_the_keyboard_reaches_everything(browser: Any, served: RunningServer) -> None:
    with opened(browser, served, text=TEXT) as page:
        page.focus('[data-key="head.decoder.1.self.1"]')
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.dataset.key") == "head.decoder.1.self.2"
        after(page, lambda: page.keyboard.press("Space"))
        assert chips(page) == ["decoder 1, head 2 ×"]
        assert page.evaluate("document.activeElement.dataset.key") == "head.decoder.1.self.2"
        page.focus('[data-key="cell.0.0"]')
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.dataset.key") == "cell.1.1"
        after(page, lambda: page.keyboard.press("Enter"))
        assert len(chips(page)) == 2
        page.focus('[data-key="word.0"]')
        page.keyboard.press("End")
        after(page, lambda: page.keyboard.press("Enter"))
        assert page.evaluate("document.activeElement.dataset.key") == "word.3"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing_wrong(
    browser: Any, served: RunningServer, size: Any, scheme: str
) -> None:
    edits = {"off": "decoder.1.self.1", "hide": "1", "cut": "decoder.2.cross:0>1"}
    for state in (
        {"text": TEXT},
        {"text": TEXT, **edits, "beside": "model-2"},
        {"text": TEXT, "temp": "1.5", "tour": "4", "look": "decoder.1.self"},
        {"model": "texts", "text": "a b d", "tour": "1"},
        {"text": ""},
    ):
        with opened(browser, served, size=size, scheme=scheme, **state) as page:
            page.wait_for_selector("h1")
            if "tour" in state:
                page.wait_for_selector(".question")
                page.click("[data-key=tour-explanation]")
                if page.locator(".options button").count():
                    page.click(".options button >> nth=0")
            assert violations(page) == [], state
            assert has_no_wide_body(page), state


def test_hostile_sentences_are_text(browser: Any, served: RunningServer) -> None:
    texts = [text for text in HOSTILE if text.strip() and "\ud800" not in text]
    line = " ".join(text.replace(" ", "_")[:20] for text in texts)[:400]
    markup = "<img src=x onerror=\"document.title='RUN'\"> </script><script>alert(1)</script>"
    for text in (markup, line):
        with opened(browser, served, allowed="40[04]|413", text="s1") as page:
            page.fill("#sentence", text)
            page.wait_for_function(
                "old => document.querySelector('.inside-result h1').textContent != old",
                arg=headline(page)[0],
            )
            page.wait_for_function("() => document.querySelector('.inside:not(.waiting)')")
            names = page.evaluate("[...document.querySelectorAll('body *')].map(e => e.localName)")
            assert not set(names) & {"img", "style", "iframe", "object", "embed", "script"}
            assert page.title() != "RUN"


def test_a_state_of_strangers_does_no_harm(browser: Any, served: RunningServer) -> None:
    state = {
        "text": TEXT,
        "cut": "x;decoder.1:a>b;<b>;decoder.1.cross:0>0",
        "hide": "0,x,1.5",
        "look": "<script>.1.x",
        "report": "view=<script>&layer=99&place=99",
        "tour": "99",
        "beam": "2",
    }
    with opened(browser, served, **state) as page:
        assert chips(page) == ["word: s1 ×", "cross 1, all heads: " + chips(page)[1][20:]]
        assert page.locator("script").count() == 1  # that of the page itself
    for wrong in ({"off": "nothing"}, {"hide": "77"}, {"checkpoint": "none"}):
        with opened(browser, served, allowed="40[04]", text=TEXT[:2], model="model-2") as page:
            page.evaluate("changes => { location.hash += '&' + changes }", urlencode(wrong))
            page.wait_for_selector(".inside > .warning[role=alert]:not([hidden])")

"""The page of a report in a browser: every view, the keyboard, hostile texts, no network."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import clearhead
import synthetic_reports
from clearhead.api import Translator
from clearhead.inspect.alignment import Aligner, word_matrix
from clearhead.inspect.pictures import pictures_of_subject
from clearhead.inspect.recording import record
from clearhead.inspect.replay import link_effects
from clearhead.inspect.report.array_store import ArrayStore
from clearhead.inspect.report.contents import Contents
from clearhead.inspect.report.page import page as html_of
from clearhead.inspect.report.writing import write_report
from clearhead.inspect.subject import Subject
from clearhead.terminal import UNSAFE
from hostile import HOSTILE
from model_folders import write_models
from pictures import drawn, panels
from small_runs import text_run
from small_translators import Classifier

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
WIDE, NARROW = {"width": 1400, "height": 1000}, {"width": 390, "height": 844}
VIEWS = ("words", "matrix", "layer", "beam", "experiments", "belief")
DRAWN = "main .picture, main .walk"

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
def translation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two sentences under two models."""
    report = synthetic_reports.translator_report(models=("runs/first", "runs/second"))
    return written(tmp_path_factory.mktemp("report"), report)


@pytest.fixture(scope="module")
def classification(tmp_path_factory: pytest.TempPathFactory) -> Path:
    report = synthetic_reports.classifier_report()
    return written(tmp_path_factory.mktemp("report"), report)


def written(folder: Path, report: tuple[Any, list[bytes]]) -> Path:
    path = folder / "report.html"
    path.write_text(html_of(*report), encoding="utf-8")
    return path


@contextmanager
def opened(
    browser: Any, path: Path, fragment: str = "", size: Any = WIDE, scheme: str = "light"
) -> Iterator[Any]:
    """The page of a file; nothing may be requested, and the console must stay empty."""
    context = browser.new_context(
        viewport=size, color_scheme=scheme, reduced_motion="reduce", accept_downloads=True
    )
    page = context.new_page()
    page.set_default_timeout(10_000)
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
    page.on("popup", lambda popup: wrong.append("a window"))
    page.on(
        "request",
        lambda request: (
            request.url.startswith(("file:", "data:,", "blob:")) or wrong.append(request.url)
        ),
    )
    page.goto(f"{path.as_uri()}{fragment}")
    page.wait_for_selector(DRAWN)
    yield page
    assert wrong == []
    context.close()


def show(page: Any, fragment: str) -> None:
    """Go to a fragment, and wait until the page has drawn it."""
    page.evaluate("document.querySelector('main').dataset.old = '1'")
    page.evaluate("fragment => { location.hash = fragment; }", fragment)
    page.wait_for_selector("main:not([data-old])")


def drawn_after(page: Any, action: Any) -> None:
    """Wait until the page has been drawn anew after an action."""
    page.evaluate("document.querySelector('main').dataset.old = '1'")
    action()
    page.wait_for_selector("main:not([data-old])")


def has_no_wide_body(page: Any) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def violations(page: Any) -> list[str]:
    """What axe finds wrong, with the first element of each."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    options = {"resultTypes": ["violations"]}
    found = axe.Axe().run(page, options=options).response["violations"]
    return [f"{rule['id']}: {rule['nodes'][0]['html']}" for rule in found]


def test_pointing_at_a_word_lights_up_what_belongs_to_it(browser: Any, translation: Path) -> None:
    with opened(browser, translation) as page:
        page.hover(".output .word >> nth=0")
        lit = page.eval_on_selector_all(
            ".source .word", "words => words.filter(word => word.style.backgroundColor).length"
        )
        assert lit >= 1
        assert "depends on" in page.text_content(".readout")
        page.hover(".source .word >> nth=1")
        assert "counts for" in page.text_content(".readout")


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_the_keyboard_reaches_words_and_heads(browser: Any, translation: Path, kind: str) -> None:
    with opened(browser, translation, f"#view=words&show={kind}&layer=1&head=2") as page:
        page.focus('.output .word[tabindex="0"]')
        for key in ("ArrowRight", "End", "Home", "ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.index") == "2"
        assert page.text_content(".readout").strip()
        drawn_after(page, lambda: page.keyboard.press("Enter"))
        assert page.evaluate("document.activeElement.dataset.key") == "output.2"
        assert page.is_visible(".details-title")
        page.focus('.thumbnails button[tabindex="0"]')
        page.keyboard.press("Home")
        drawn_after(page, lambda: page.keyboard.press("Enter"))
        assert (
            page.get_attribute('.thumbnails button[data-layer="1"] >> nth=0', "aria-pressed")
            == "true"
        )


def test_joining_subwords_changes_the_words(browser: Any, translation: Path) -> None:
    with opened(browser, translation, "#view=words&show=cross") as page:
        joined = page.locator(".source .word").count()
        drawn_after(page, lambda: page.uncheck('[data-key="joined"]'))
        assert page.locator(".source .word").count() == joined + 1


def test_a_chosen_word_is_explained_and_compared(browser: Any, translation: Path) -> None:
    with opened(browser, translation) as page:
        drawn_after(page, lambda: page.click(".output .word >> nth=2"))
        titles = page.locator(".details h4").all_text_contents()
        assert len(titles) == 5
        drawn_after(page, lambda: page.click('[data-key="against.2"]'))
        assert "other2" in page.text_content(".details-title")
        assert "against=2" in page.url
        drawn_after(page, page.go_back)
        assert "against" not in page.url


def test_every_view_and_every_layer_is_drawn(browser: Any, translation: Path) -> None:
    with opened(browser, translation) as page:
        for view in (*VIEWS[1:], "words"):
            drawn_after(page, lambda: page.click(f'[data-key="view.{view}"]'))  # noqa: B023
            assert page.locator("main h3").count() >= 1
        for layer in (1, 2):
            for stack, steps in (("encoder", 11), ("decoder", 17)):
                show(page, f"#view=layer&stack={stack}&layer={layer}&token=2&head=2")
                assert page.locator(".steps > li").count() == steps
        page.click(".steps summary >> nth=0")
        assert len(page.text_content(".numbers").split()) == synthetic_reports.D_MODEL


def test_the_beam_shows_the_way_of_a_hypothesis(browser: Any, translation: Path) -> None:
    with opened(browser, translation, "#view=beam") as page:
        everything = page.locator(".box").count()
        drawn_after(page, lambda: page.click('[data-key="hypothesis.1"]'))
        places = page.locator(".box.on-path").count()
        assert places == 8  # the start, and each output
        drawn_after(page, lambda: page.uncheck('[data-key="pruned"]'))
        assert page.locator(".box").count() < everything


def test_the_page_opens_with_the_output_its_probability_and_exact_removal(
    browser: Any, tmp_path: Path
) -> None:
    report, blobs = synthetic_reports.translator_report()
    report["models"][0]["belief"]["believed"] = ["rollout"]
    with opened(browser, written(tmp_path, (report, blobs))) as page:
        assert page.text_content("h1") == "A man rides a bicycle . → Ein Mann fährt Fahrrad ."
        probability = np.exp(report["items"][0]["score"]["log_probability"])
        assert f"{100 * probability:.1f}\u202f%" in page.text_content(".top")
        assert page.text_content("main .picture h3 >> nth=0") == "Removal"
        assert "helps" in page.text_content("main .legend >> nth=0")


def test_the_matrix_of_the_decoder_has_no_column_that_is_not_read(
    browser: Any, translation: Path
) -> None:
    with opened(browser, translation, "#view=matrix&show=decoder&layer=1&head=1") as page:
        assert "masked" in page.text_content("main .legend >> nth=0")
        with page.expect_download() as download:
            page.click("button.csv >> nth=0")
        head, *rows = csv.reader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig")))
        assert head == ["", "<s>", "Ein", "Mann", "fährt", "Fahrrad", "."]
        # The row of a word with two pieces sees the first of them.
        visible = [sum(cell != "" for cell in row[1:]) for row in rows]
        assert visible == [1, 2, 3, 5, 5, 6]
        page.click("main summary >> nth=0")
        page.wait_for_selector(".matrix-table td")
        assert page.locator(".matrix-table td.swatch").count() == 6 * 6 - sum(visible)
        show(page, "#view=words&show=decoder&layer=1&head=1&place=2")
        assert "Reading Ein to predict Mann, the decoder" in page.text_content(".readout")
        page.hover(".output .word >> nth=-1")  # the end is read by nothing
        assert "is looked at" not in page.text_content(".readout")


@pytest.mark.parametrize(("effect", "strength"), [(0.002, 0.09), (0.1, 0.62), (5.0, 0.62)])
def test_a_small_effect_has_a_pale_colour(
    browser: Any, tmp_path: Path, effect: float, strength: float
) -> None:
    report, _ = synthetic_reports.translator_report()
    store = ArrayStore()
    item = report["items"][0]
    for measure in item["measures"]:
        measure["values"] = store.add(np.full((7, 7), effect), "float32")
    item["alternatives"]["log_probabilities"] = store.add(np.full((7, 4), -1.0), "float32")
    item["effects"] = item["walk"] = None
    item["attention"] = dict.fromkeys(
        ("encoder", "decoder", "cross"), store.add(np.full((2, 2, 7, 7), 0.1), "weight8")
    )
    store.close()
    report["items"] = [item]
    with opened(browser, written(tmp_path, (report, store.blobs)), "#view=words&joined=0") as page:
        colour = page.eval_on_selector(".source .word", "word => word.style.backgroundColor")
        assert float(re.findall(r"[\d.]+", colour)[3]) == pytest.approx(strength, abs=0.011)
        assert page.locator('[data-key="view.layer"]').count() == 0  # without numbers


def test_near_a_probability_of_1_the_logit_difference_is_shown(
    browser: Any, tmp_path: Path
) -> None:
    report, blobs = synthetic_reports.classifier_report()
    store = ArrayStore()
    store.blobs, store._open = [*blobs], bytearray()
    item = report["items"][0]
    logs = np.log([[0.998, 0.0015, 0.0005]])
    item["alternatives"]["log_probabilities"] = store.add(logs, "float32")
    by_source = np.zeros((6, 1, 3))
    by_source[2, 0] = 0.004, -2.5, -1
    item["effects"]["by_source"] = store.add(by_source, "float32")
    store.close()
    with opened(browser, written(tmp_path, (report, store.blobs))) as page:
        assert "logit difference" in page.text_content(".details .lead")
        assert "which is 6.50" in page.text_content(".details .lead")
        text = page.text_content(".details")
        assert "the" in text
        assert "+2.50" in text  # 0.004 − (−2.5)
        assert "log p +0.0040" in text


def test_words_that_are_perhaps_not_translated_are_marked(browser: Any, tmp_path: Path) -> None:
    report, blobs = synthetic_reports.translator_report()
    report["items"][0]["untranslated"] = [2, 4]
    with opened(browser, written(tmp_path, (report, blobs))) as page:
        assert page.locator(".source .dropped").all_text_contents() == ["rides", "bicycle"]
        assert "perhaps not translated" in page.text_content("main .legend >> nth=1")
        show(page, "#view=words&joined=0")
        marked = page.locator(".source .dropped").all_text_contents()
        assert marked == ["rides", "bi", "cycle"]
        show(page, "#sentence=2&view=words")
        assert page.locator(".dropped").count() == 0


def test_the_map_of_a_layer_goes_to_a_step(browser: Any, translation: Path) -> None:
    with opened(browser, translation, "#view=layer&stack=decoder&layer=1&token=2") as page:
        assert "reads Ein, predicts Mann" in page.text_content("main h3")
        assert page.locator(".map button").count() == page.locator(".steps > li").count()
        page.click(".map button >> nth=14")
        step = page.locator(".steps > li >> nth=14")
        assert step.evaluate("step => step === document.activeElement")
        assert -5 <= step.bounding_box()["y"] <= NARROW["height"]
        assert step.locator("h4").text_content() in page.text_content(".map button >> nth=14")


def test_what_scrolls_sideways_says_so(browser: Any, translation: Path) -> None:
    for size, expected in ((WIDE, False), (NARROW, True)):
        with opened(browser, translation, "#view=belief", size=size) as page:
            page.wait_for_timeout(100)
            wide = "[...document.querySelectorAll('.scrolled')].some(e => 'wide' in e.dataset)"
            assert page.evaluate(wide) == expected


def test_an_encoder_without_labels_has_a_report(browser: Any, tmp_path: Path) -> None:
    write_models(tmp_path)
    encoder = clearhead.load(tmp_path / "encoder")
    path = write_report(tmp_path / "r.html", {"m": encoder}, ["a b", "c"])
    with opened(browser, path) as page:
        assert page.text_content("h1") == "a b"
        assert "without labels" in page.text_content(".top")
        for view in VIEWS:
            show(page, f"#view={view}")
            assert page.locator(".warning[role=alert]").count() == 0
        show(page, "#view=words")
        assert page.locator(".output .word").count() == 0
        assert violations(page) == []


def test_two_models_side_by_side(browser: Any, translation: Path) -> None:
    with opened(browser, translation, "#view=words&compare=2") as page:
        assert page.locator(".panel").count() == 2
        assert page.locator(".panel h2").all_text_contents() == ["runs/first", "runs/second"]
        left, right = [box.bounding_box() for box in page.locator(".panel").all()]
        assert right["x"] > left["x"] + left["width"]
        assert has_no_wide_body(page)


def test_a_classifier_shows_labels_and_what_counts(browser: Any, classification: Path) -> None:
    with opened(browser, classification) as page:
        text = page.text_content("main")
        for label in ("location", "number", "person"):
            assert label in text
        assert "Pooling" in text
        assert page.locator('[data-key="view.beam"]').count() == 0
        for view in ("matrix", "layer", "belief", "experiments"):
            show(page, f"#view={view}")
        assert page.locator("main h3").all_text_contents() == ["Logit lens"]
        assert "location" in page.text_content("main thead")
        assert "needs" not in page.text_content("main")
        assert violations(page) == []


def test_independent_labels_are_chosen_one_by_one(browser: Any, tmp_path: Path) -> None:
    classifier = Classifier(multi_label=True)
    contents = Contents("Labels")
    number = contents.add_model("m", classifier.config, classifier.model)
    expected = []
    for sentence, text in enumerate(("y x y", "x")):
        if sentence == 1:
            classifier.model.output.bias.data.copy_(torch.tensor([-1.0, -9.0, -2.0]))
        subject = Subject.classification(classifier, text)
        row, _ = classifier.encode(text)
        with torch.no_grad():
            (probabilities,) = classifier.model(torch.tensor([row])).sigmoid().tolist()
        found = sorted(zip(classifier.labels, probabilities, strict=True), key=lambda x: -x[1])
        contents.add_classification(number, sentence, subject, text, found, classifier.labels)
        expected.append([f"{name} with probability {percent(p)}" for name, p in found])
    contents.arrays.close()
    path = written(tmp_path, (contents.to_dict(), contents.arrays.blobs))
    with opened(browser, path) as page:
        assert "three, one" in page.text_content(".sentences li >> nth=0")
        assert "no label" in page.text_content(".sentences li >> nth=1")
        assert f"Its answer: {expected[0][0]}, {expected[0][1]}." in page.text_content(".summary")
        assert "three" in page.text_content(".details-title")
        counts = page.text_content(".explained")
        drawn_after(page, lambda: page.click(".output .word >> nth=1"))
        assert "one" in page.text_content(".details-title")
        assert page.text_content(".explained") != counts
        assert page.locator('[data-key^="against."]').count() == 0
        assert violations(page) == []
        drawn_after(page, lambda: page.click('[data-key="label.0"]'))
        assert page.text_content(".explained") == counts
        assert page.locator('[data-key^="label."]').count() == 1
        for view in ("matrix", "layer", "belief"):
            show(page, f"#view={view}&place=2")
        show(page, "#sentence=2&view=words")
        none = f"Its answer: no label; the most probable one is {expected[1][0]}."
        assert none in page.text_content(".summary")
        assert "one" in page.text_content(".details-title")


def percent(share: float) -> str:
    """As the page writes it, in the form for shares from 1 to 99 %."""
    return f"{100 * share:.0f}\u202f%"


@pytest.mark.parametrize(
    "fragment",
    [
        "#sentence=2&view=words&show=decoder&layer=2&head=1&joined=0&place=3&against=1",
        "#model=2&compare=1&view=matrix&show=encoder&layer=1",
        "#sentence=2&view=layer&stack=decoder&token=4&head=2",
        "#view=beam&hypothesis=2&pruned=0",
        "#sentence=2&view=experiments&other=2",
    ],
)
def test_a_link_restores_the_view(browser: Any, translation: Path, fragment: str) -> None:
    with opened(browser, translation, fragment) as first:
        assert first.get_attribute("footer a", "href") == canonical(fragment)
        content = first.text_content("main")
    with opened(browser, translation, canonical(fragment)) as second:
        assert second.text_content("main") == content


def canonical(fragment: str) -> str:
    order = [
        *("sentence", "model", "compare", "view", "show", "measure", "layer", "head", "joined"),
        *("place", "against", "stack", "token", "hypothesis", "other", "pruned"),
    ]
    parts = sorted(fragment[1:].split("&"), key=lambda part: order.index(part.split("=")[0]))
    return "#" + "&".join(parts)


@pytest.mark.parametrize(
    "fragment", ["#view=nothing&sentence=99&model=7&layer=99&head=99", "#%", "#x=1"]
)
def test_a_wrong_link_shows_something(browser: Any, translation: Path, fragment: str) -> None:
    with opened(browser, translation, fragment) as page:
        assert page.locator(".word").count() > 10


def test_the_numbers_are_saved_as_csv(browser: Any, translation: Path) -> None:
    with opened(browser, translation, "#view=matrix&show=cross&layer=1&head=1") as page:
        with page.expect_download() as download:
            page.click("button.csv >> nth=0")
        rows = list(csv.reader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig"))))
        assert download.value.suggested_filename == "cross-layer-1-head-1.csv"
        assert rows[0] == ["", "A", "man", "rides", "a", "bicycle", "."]
        assert [row[0] for row in rows[1:]] == [
            *("<s> → Ein", "Ein → Mann", "Mann → fährt"),
            *("fährt → Fahrrad", "Fahrrad → .", ". → </s>"),
        ]
        assert sum(map(float, rows[1][1:])) == pytest.approx(1, abs=0.03)
        show(page, "#view=beam")
        with page.expect_download() as download:
            page.click("button.csv >> nth=1")
        rows = list(csv.reader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig"))))
        assert rows[1][:4] == ["0", "", "0", "<s>"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_nothing_wrong(
    browser: Any, translation: Path, classification: Path, size: Any, scheme: str
) -> None:
    with opened(browser, translation, size=size, scheme=scheme) as page:
        for view in VIEWS:
            show(page, f"#view={view}&place=3&compare={2 if view == 'words' else 0}&layer=1&head=2")
            if view == "matrix":
                page.click("main summary")
            assert violations(page) == [], view
            assert has_no_wide_body(page), view
    with opened(browser, classification, size=size, scheme=scheme) as page:
        assert violations(page) == []
        assert has_no_wide_body(page)


def test_the_experiments_have_the_numbers_of_the_functions(
    browser: Any, translator: Translator, tmp_path: Path
) -> None:
    texts, best = ["117 a c 24", "c", "117 a b 24"], ["42 c a 7 11", "c", "42 b a 7"]
    path = write_report(tmp_path / "r.html", {"m": translator}, texts, targets=best)
    lens = clearhead.lens(translator, texts[0], best[0])
    patches = clearhead.patch_map(translator, texts[0], texts[2], best[2])
    with opened(browser, path, "#view=experiments") as page:
        assert has_no_wide_body(page)

        def saved(number: int) -> list[list[str]]:
            with page.expect_download() as download:
                page.click(f"main button.csv >> nth={number}")
            text = Path(download.value.path()).read_text("utf-8-sig")
            return list(csv.reader(io.StringIO(text)))[1:]

        head = page.locator("main table >> nth=0").locator("thead th").all_inner_texts()
        assert head[1] == f"reads {lens.reads[1]}\npredicts {lens.outputs[1]}"
        cell = page.locator("main table >> nth=0").locator("tbody tr >> nth=-1").locator("td")
        assert cell.all_text_contents() == [
            f"{place[0]}, {cell.nth(i).get_attribute('title')}"
            for i, place in enumerate(lens.best[-1])
        ]
        assert [row[3] for row in saved(0)] == [p[0] for layer in lens.best for p in layer]
        found = [float(row[4]) for row in saved(0)]
        np.testing.assert_allclose(found, lens.probabilities[..., 0].ravel(), atol=1e-5)
        subject = Subject.translation(translator, texts[0], best[0])
        words = subject.output_words, subject.source_words
        links = link_effects(
            cast(Any, subject.replay), *([word.positions for word in side] for side in words)
        )
        assert [row[0] for row in saved(1)] == [word.text for word in words[0]]
        found = [list(map(float, row[1:])) for row in saved(1)]
        np.testing.assert_allclose(found, links, atol=1e-4)
        with clearhead.edit(translator) as e:
            e.without_positions("source")
            without = clearhead.record(translator, texts[0], best[0]).encoder_attentions
        moved = abs(without - subject.record.encoder_attentions).sum(axis=-1).mean(axis=-1) / 2
        found = [list(map(float, row[1:])) for row in saved(2)]
        np.testing.assert_allclose(found, moved, atol=1e-4)
        found = [list(map(float, row[1:])) for row in saved(3)]
        np.testing.assert_allclose(found, patches.values - patches.unpatched, atol=1e-4)
        text = page.text_content("main .picture >> nth=3")
        for number in (patches.unpatched, patches.other):
            assert f"−{-number:.2f}" in text
        assert page.text_content('[data-key="other"]') == texts[2]
        show(page, "#view=experiments&sentence=2")  # no other sentence is as long
        assert page.locator("main h3").all_text_contents() == [
            *("Logit lens", "Knockout of single links", "Without positions")
        ]
        assert page.locator('[data-key="other"]').count() == 0
        assert "needs a report with another sentence" in page.text_content("main .how >> nth=-1")


def test_words_from_right_to_left_are_in_their_order(browser: Any, tmp_path: Path) -> None:
    report = synthetic_reports.translator_report([("\u05e9\u05dc \u05d0\u05d1", "a b")])
    with opened(browser, written(tmp_path, report)) as page:
        first, second = page.locator(".source .word").all()
        assert first.bounding_box()["x"] > second.bounding_box()["x"]
        first.focus()
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("document.activeElement.dataset.index") == "1"


def test_the_page_shows_what_the_model_computed(
    browser: Any, translator: Translator, tmp_path: Path
) -> None:
    source = "sie sieht den kleinen hund ."
    path = write_report(tmp_path / "report.html", {"small": translator}, [source, "er schläft ."])
    seen = record(translator, source, translator.translate([source])[0][0])
    with opened(browser, path) as page:
        for layer, weights in enumerate(seen.cross_attentions, start=1):
            show(page, f"#view=matrix&show=cross&layer={layer}&head=2&joined=0")
            with page.expect_download() as download:
                page.click("button.csv >> nth=0")
            rows = list(csv.reader(io.StringIO(Path(download.value.path()).read_text("utf-8-sig"))))
            assert [row[0].split(" → ") for row in rows[1:]] == [
                [*pair] for pair in itertools.pairwise([*seen.target, "</s>"])
            ]
            numbers = [list(map(float, row[1:])) for row in rows[1:]]
            np.testing.assert_allclose(numbers, weights[1], atol=0.005)
        for view in VIEWS:
            show(page, f"#view={view}&place=2&stack=decoder")
            assert page.locator(".warning[role=alert]").count() == 0


def test_joined_pieces_have_the_numbers_of_the_figures(
    browser: Any, translator: Translator, tmp_path: Path
) -> None:
    """Sums over the pieces that are looked at, means over those that look; effects add up."""
    source, target = "117 a c 24", "42 c a 7 11"
    path = write_report(tmp_path / "r.html", {"m": translator}, [source], targets=[target])
    subject = Subject.translation(translator, source, target)
    words = subject.source_words, subject.output_words
    assert all(any(len(word.positions) > 1 for word in side) for side in words)
    by_norms = Aligner("norms", 0, "target", "named", 0.0, 0)
    pictures = pictures_of_subject(subject, chosen_aligner=lambda: by_norms)
    effects, shares = (
        drawn(panels(cast(Figure, pictures[name]()))[0]).filled(0)
        for name in ("word-effects", "alignment")
    )
    with opened(browser, path) as page:

        def shown(choice: str) -> np.ndarray:
            show(page, f"#view=matrix&{choice}")
            with page.expect_download() as download:
                page.click("button.csv >> nth=0")
            text = Path(download.value.path()).read_text("utf-8-sig")
            rows = list(csv.reader(io.StringIO(text)))
            assert [row[0].split(" → ")[-1] for row in rows[1:-1]] == [w.text for w in words[1]]
            return np.array([list(map(float, row[1:])) for row in rows[1:]])

        np.testing.assert_allclose(shown("measure=removal"), effects, atol=1e-4)
        norms = shown("measure=norms")[: len(words[1]), : len(words[0])]
        np.testing.assert_allclose(norms / norms.sum(axis=1, keepdims=True), shares, atol=1e-4)
        weights = subject.record.cross_attentions[0].mean(axis=0)
        expected = word_matrix(weights, 0, *words)
        found = shown("show=cross&layer=1")[: len(words[1]), : len(words[0])]
        np.testing.assert_allclose(found, expected, atol=0.01)


FORBIDDEN = {
    "markup": "document.body.innerHTML = '<b>x</b>'",
    "a script": "document.createElement('script').text = '1'",
    "a handler": "document.body.setAttribute('onclick', '1')",
    "evaluation": "setTimeout(() => new Function('return 1')())",
    "a style": "document.body.setAttribute('style', 'color: red')",
    "a picture": "new Image().src = 'http://127.0.0.1:9/x.png'",
    "a request": "await fetch('http://127.0.0.1:9/')",
    "a worker": "new Worker('data:,1')",
}


@pytest.mark.parametrize("code", FORBIDDEN.values(), ids=FORBIDDEN)
def test_the_policy_of_the_page_forbids(browser: Any, translation: Path, code: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(translation.as_uri())
    page.wait_for_selector(DRAWN)
    assert page.evaluate(
        """async code => {
            let violations = 0;
            document.addEventListener("securitypolicyviolation", () => violations++);
            const run = {CODE};
            try { await run(); } catch {}
            await new Promise(done => setTimeout(done, 50));
            return violations;
        }""".replace("{CODE}", f"async () => {{ {code}; }}")
    )
    context.close()


MARKUP = (
    "<script>document.title='RUN'</script>",
    "</script><script>document.title='RUN'</script>",
    "<img src=x onerror=\"document.title='RUN'\">",
    "<svg onload=\"document.title='RUN'\">",
    "javascript:document.title='RUN'",
    "{{constructor.constructor('document.title=1')()}}",
    "</style><style>*{display:none}</style>",
    "<math><mi href=\"javascript:document.title='RUN'\">x</mi></math>",
    "<iframe srcdoc=\"<script>parent.document.title='RUN'</script>\">",
    "<base href=//x><form action=//x><input autofocus onfocus=\"document.title='RUN'\">",
    "<link rel=stylesheet href=//x><meta http-equiv=refresh content=0;//x>",
    "<template><img src=x onerror=\"document.title='RUN'\"></template>",
    "--><script>document.title='RUN'</script><!--",
    "]]><script>document.title='RUN'</script><![CDATA[",
    '"onmouseover="document.title=\'RUN\'"x="',
    "'-document.title='RUN'-'",
    "${document.title='RUN'}",
    "{% raw %}{{ 7 * 7 }}{% endraw %}",
    "&lt;b&gt;&#x202e;",
    "__proto__",
    "constructor",
    "x" * 3000,
    '=HYPERLINK("http://x")',
    "\ud800",
)


def visible(text: str) -> str:
    """The text as the page shows it: symbols for characters that hide or reorder text."""

    def symbol(found: re.Match[str]) -> str:
        code = ord(found[0])
        if code < 0x20:
            return chr(0x2400 + code)
        return "\u2421" if code == 0x7F else f"‹U+{code:04X}›"

    return UNSAFE.sub(symbol, text)


def test_hostile_texts_are_shown_and_none_runs(browser: Any, tmp_path: Path) -> None:
    texts = [text.replace(" ", "_") for text in (*MARKUP, *HOSTILE)]
    line = " ".join(texts)
    report, blobs = synthetic_reports.translator_report(
        [(line, line)], models=texts[:2], title=texts[0]
    )
    for model in report["models"]:
        model["belief"] |= {"text": texts[1]}
        model["roles"] = {"encoder.1.self.1": [[texts[2], 0.8]]}
    report["items"][0] |= {"warning": texts[3]}
    for hypothesis, text in zip(report["items"][0]["beam"]["hypotheses"], texts, strict=False):
        hypothesis["text"] = text
    report |= {"command": texts[1], "generator": texts[2]}
    with opened(browser, written(tmp_path, (report, blobs))) as page:
        words = page.locator(".source .word").all_text_contents()
        assert words == [visible(text) for text in texts]
        for view in VIEWS:
            show(page, f"#view={view}&place=2&layer=1&head=1&compare=2")
            names = page.evaluate("[...document.querySelectorAll('body *')].map(e => e.localName)")
            assert not set(names) & {"img", "style", "iframe", "object", "embed", "base", "form"}
            assert names.count("script") == 2 + len(blobs)
            assert page.title() != "RUN"
        show(page, "#view=words&place=2&joined=0")
        for place in (5, 60, 110):
            show(page, f"#view=words&place={place}")
            assert visible(texts[place - 1]) in page.text_content(".details-title")


def test_hostile_labels_are_text(browser: Any, tmp_path: Path) -> None:
    labels = [*MARKUP, *HOSTILE][:100]
    report = synthetic_reports.classifier_report(labels=labels)
    with opened(browser, written(tmp_path, report)) as page:
        for button in page.locator("main details > summary").all():
            button.click()
        # What a disclosure hides is drawn when it opens.
        page.wait_for_function(
            "last => document.querySelector('main').textContent.includes(last)",
            arg=visible(labels[-1]),
        )
        text = page.text_content("main")
        assert [label for label in labels if visible(label) not in text] == []
        assert page.title() != "RUN"


INPUTS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["Embedding", "PE", "Position", "x, their sum"]),
    ({"positions": False}, ["Embedding"]),
    ({"norm": True}, ["Embedding", "PE", "LayerNorm", "Position"]),
    ({"spelled": True}, ["Embedding", "Ngrams", "PE", "Position", "x, their sum"]),
]


@pytest.mark.parametrize(("changes", "shown"), INPUTS)
def test_the_walk_begins_with_the_input_of_the_model(
    browser: Any, tmp_path: Path, changes: dict[str, Any], shown: list[str]
) -> None:
    report, blobs = synthetic_reports.translator_report()
    report["models"][0]["input"] |= changes
    with opened(browser, written(tmp_path, (report, blobs)), "#view=layer&layer=1") as page:
        text = page.text_content(".steps > li:first-child")
    names = {"Embedding", "Ngrams", "PE", "LayerNorm", "Position", "x, their sum"}
    assert {name for name in names if name in text} == set(shown)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("form", ["standard", "std_plus_epsilon"])
def test_the_walk_has_the_formulas_of_the_model(
    browser: Any, tmp_path: Path, norm: str, form: str
) -> None:
    report, blobs = synthetic_reports.translator_report(norm=norm)
    report["models"][0]["norm_form"] = form
    with opened(browser, written(tmp_path, (report, blobs)), "#view=layer&layer=1") as page:
        text = page.text_content(".walk")
        roots = page.locator(".walk mfrac msqrt").count()
    assert ("x̂" in text) == (norm == "pre")
    assert ("LayerNorm(y)" in text) == (norm == "post")
    # The root of d_k, and those of the norms of both sub-layers.
    assert roots == (3 if form == "standard" else 1)


def test_a_convolved_input_is_shown_with_its_parts(browser: Any, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    config = text_run(folder, model={"input_convolution": [3]}, training={"max_steps": 20})
    clearhead.train(config, observers=())
    path = tmp_path / "r.html"
    write_report(path, {"m": clearhead.load(config.folder)}, ["a b"])
    with opened(browser, path, "#view=layer&layer=1") as page:
        text = page.text_content(".steps > li:first-child")
    assert "Convolutions" in text
    assert "Convolution(y)" in text
    assert "x, their sum" in text

"""The live page in a real browser: it shows the model, to every eye and hand, for a long time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from scstream.serve import live as module
from scstream.serve.app import create_app
from scstream.serve.live import Live
from scstream.serve.memory import Shares, Summary
from scstream.serve.model import LocalModel
from scstream.serve.settings import ServiceSettings
from tests.page.stage import (
    CHOSEN,
    INK,
    READY,
    ROWS,
    Actor,
    Show,
    Stage,
    browser,
    complaints,
    opened,
    play,
)

ACTORS = [
    Actor(0, 9999, (0.0, 0.0), (0.0, 0.0), (0.5, 0.3)),
    Actor(0, 15, (6.0, 6.0), (6.0, 6.0), (0.4, 0.4)),
    Actor(10, 9999, (0.0, 6.0), (0.0, 6.0), (0.3, 0.5)),
]

CONTRASTS = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgb(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("noscript, option")) continue;
    const pair = [light(rgb(getComputedStyle(element).color)), light(ground(element))].sort();
    found.push([element.tagName + "#" + element.id, (pair[1] + 0.05) / (pair[0] + 0.05)]);
  }
  return found;
}"""

JOINED = """(pair) => import("/page/store.js").then(({ decoded, joined }) => {
  const { ids, shares, ...found } = joined(...pair.map((text) => decoded(JSON.parse(text))));
  return { ...found, ids: [...ids], shares: [...shares] };
})"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def show() -> Iterator[Show]:
    """A stream that was learned for a while; tests look at it and leave it as it is."""
    seconds = count()
    live = Live(clock=lambda: float(next(seconds)))
    played = Show(live, names=("width", "height"), half_life=1.5)
    for rows in play(ACTORS, n_rows=120, n_batches=40, stray=0.02):
        played.learn(rows)
    yield played


@pytest.fixture(scope="module")
def stage(show: Show) -> Iterator[Stage]:
    with Stage(show.live) as served:
        yield served


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    opened = chromium.new_page(viewport={"width": 1400, "height": 1000}, reduced_motion="reduce")
    yield opened
    opened.close()


def test_it_shows_the_model_and_asks_nobody_else(page: Page, stage: Stage, show: Show) -> None:
    found, asked = complaints(page), []
    page.on("request", lambda request: asked.append(request.url))
    opened(page, stage)
    assert found == []
    state = show.model_version().model.state
    assert page.inner_text("#n-clusters") == str(state.n_clusters)
    assert page.inner_text("#n-batches") == "40"
    ids = page.eval_on_selector_all(ROWS, "all => all.map(e => e.cluster)")
    assert sorted(ids) == state.ids.tolist()
    drawn = page.eval_on_selector("#map", "e => ({...e.dataset})")
    assert int(drawn["rows"]) == 600 and int(drawn["ellipses"]) == state.n_clusters
    colours = page.evaluate(
        "ids => import('/page/marks.js').then(m => ids.map(m.palette().of))", ids
    )
    assert all(page.evaluate(INK, [colour, "map"]) > 50 for colour in colours)
    events = page.eval_on_selector_all("#events li span", "all => all.map(e => e.innerText)")
    assert "cluster 0 was born" in events and any("died" in words for words in events)
    assert page.eval_on_selector("#lineage", "e => Number(e.dataset.lives)") >= 3
    assert page.eval_on_selector("#shares", "e => Number(e.dataset.layers)") >= 5
    assert page.title() == "scstream"
    assert asked and all(url.startswith(stage.address) for url in asked)


def test_every_word_is_readable_in_both_themes(page: Page, stage: Stage) -> None:
    opened(page, stage)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 40
        assert [entry for entry in contrasts if entry[1] < 4.5] == []


def test_the_theme_can_be_chosen_and_stays(chromium: Browser, stage: Stage) -> None:
    page = opened(chromium.new_page(color_scheme="dark"), stage)
    paper = page.eval_on_selector("body", "e => getComputedStyle(e).backgroundColor")
    assert paper == "rgb(13, 15, 19)"
    page.click("#dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.get_attribute("#dark", "aria-pressed") == "false"
    page.close()


def test_everything_is_reached_by_keys(page: Page, stage: Stage) -> None:
    opened(page, stage)
    order = []
    for _ in range(21):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
    controls = ["skip", "level", "span", "pause", "dark", "fit", "follow"]
    assert order[:12] == [*controls, "map", "shares", "lineage", "rates", "search"]
    assert "scroll" in order[12:]  # the list of events; before it the heads of the table, and a row
    ids = page.eval_on_selector_all(ROWS, "all => all.map(e => e.cluster)")
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#detail")).to_contain_text(f"Cluster {ids[1]}")
    expect(page.locator("#detail")).to_contain_text("width")
    assert page.eval_on_selector(CHOSEN, "e => e.cluster") == ids[1]
    expect(page.locator("#shares-readout")).to_contain_text(f"cluster {ids[1]}")
    expect(page.locator("#spoken")).to_contain_text(f"Cluster {ids[1]}")
    page.keyboard.press("Escape")
    expect(page.locator(CHOSEN)).to_have_count(0)


def test_the_table_and_time_are_walked_by_arrows(page: Page, stage: Stage) -> None:
    opened(page, stage)
    ids = page.eval_on_selector_all(ROWS, "all => all.map(e => e.cluster)")
    page.focus(f"{ROWS} >> nth=0")
    for _ in ids:
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.cluster") == ids[-1]
    page.keyboard.press("Enter")
    expect(page.locator(CHOSEN)).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.locator(CHOSEN)).to_have_count(1)
    page.focus("#rates")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#shares-readout")).to_contain_text("batch 38:")
    page.keyboard.press("Escape")
    expect(page.locator("#shares-readout")).to_contain_text("batch 39:")


def test_a_click_anywhere_in_a_row_selects(page: Page, stage: Stage) -> None:
    opened(page, stage)
    for cell in range(6):
        row = page.locator(ROWS).nth(cell % 2)
        if not row.locator("td").nth(cell).is_visible():  # names, if there are none
            continue
        row.locator("td").nth(cell).click()
        id = row.evaluate("e => e.cluster")
        expect(page.locator("#detail .who")).to_contain_text(f"Cluster {id}")
        row.locator("td").nth(cell).click()
        expect(page.locator("#detail .who")).to_have_count(0)


def test_every_control_has_a_name(page: Page, stage: Stage) -> None:
    opened(page, stage)
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    focusable = [
        node
        for node in nodes
        if any(p["name"] == "focusable" and p["value"]["value"] for p in node.get("properties", []))
        and node["role"]["value"] not in ("RootWebArea", "option", "MenuListPopup")
    ]
    assert len(focusable) > 8
    assert [node["role"] for node in focusable if not node["name"]["value"].strip()] == []
    live = page.locator("[aria-live=polite]")
    expect(live).to_have_count(1)


def test_nothing_sticks_out(page: Page, stage: Stage) -> None:
    opened(page, stage)
    for width in (390, 768, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(100)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        boxes = page.eval_on_selector_all(
            "canvas", "all => all.map(e => [e.clientWidth, e.clientHeight, e.width])"
        )
        assert all(w >= 300 and h >= 120 and pixels >= w for w, h, pixels in boxes)


def test_without_a_model_it_says_so(page: Page) -> None:
    found = complaints(page)
    with Stage(Live()) as stage:
        page.goto(stage.address)
        expect(page.locator("#state")).to_have_text("connected, no model yet")
        expect(page.locator("#n-clusters")).to_have_text("–")
        expect(page.locator("#events")).to_have_text("Nothing has happened yet.")
    assert found == []


def test_a_model_that_is_only_followed_has_no_rows_and_may_be_old(page: Page, show: Show) -> None:
    live = Live()
    live.add_version(show.model_version(age=600.0))
    with Stage(live) as stage:
        page.goto(stage.address)
        expect(page.locator("#state")).to_have_text("live, but no new batch for 10 min")
        expect(page.locator("#map-says")).to_contain_text("No rows were learned or asked about")


def test_a_token_is_kept_in_the_tab_alone(page: Page, show: Show) -> None:
    live = Live()
    live.add_version(show.model_version())
    with Stage(live, token="hunter2") as stage:
        page.goto(stage.address)
        expect(page.locator("#state")).to_have_text("a token is needed")
        expect(page.locator("#token")).to_be_focused()
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#door-says")).to_have_text("That token was refused.")
        page.fill("#token", "hunter2")
        page.keyboard.press("Enter")
        page.wait_for_selector(READY)
        expect(page.locator("#door")).to_be_hidden()
        kept = page.evaluate("[JSON.stringify(sessionStorage), JSON.stringify(localStorage)]")
        assert "hunter2" in kept[0] and "hunter2" not in kept[1] + page.content() + page.url
        page.reload()
        page.wait_for_selector(READY)


def test_it_is_at_home_in_the_service(page: Page, show: Show) -> None:
    live, token = Live(), "hunter2"
    app = create_app(LocalModel(show.model_version()), ServiceSettings(token=token), live=live)
    app.state.service.begin()
    with Stage(live, app=app) as stage:
        page.goto(stage.address)
        page.fill("#token", token)
        found = complaints(page)
        page.keyboard.press("Enter")
        page.wait_for_selector(READY)
        rows = {"rows": [[0.0, 0.0], [90.0, 90.0]]}
        headers = {"authorization": f"Bearer {token}"}
        httpx.post(f"{stage.address}predict", json=rows, headers=headers).raise_for_status()
        page.wait_for_selector('#map[data-rows="2"]')
        assert found == []


def test_it_comes_back_when_the_service_does(page: Page, show: Show) -> None:
    first, second = Live(), Live()
    first.add_version(show.model_version())
    with Stage(first) as stage:
        opened(page, stage)
    expect(page.locator("#state")).to_contain_text("next try in")
    expect(page.locator("#n-batches")).to_have_text("40")  # what was known is still there
    second.add_version(show.model_version())
    with Stage(second, port=stage.port):
        page.wait_for_selector(READY)


def test_a_pause_holds_the_picture_and_loses_nothing(page: Page, show: Show) -> None:
    live = Live()
    live.add_version(show.model_version(batch=40))
    with Stage(live) as stage:
        opened(page, stage)
        page.click("#pause")
        expect(page.locator("#state")).to_have_text("paused")
        live.add_version(show.model_version(batch=50))
        page.wait_for_timeout(600)
        assert page.get_attribute("html", "data-batch") == "40"
        page.click("#pause")
        expect(page.locator("#n-batches")).to_have_text("50")
        summaries = page.evaluate("import('/page/store.js').then(m => m.store.summaries.length)")
        assert summaries == 2


def test_memory_of_the_page_is_bounded(
    page: Page, show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some hundred pictures come; neither elements nor the heap after a collection grow."""
    monkeypatch.setattr(module, "EVERY", 0.01)
    monkeypatch.setattr(module, "_PAUSE", 0)
    seconds = count()
    live = Live(clock=lambda: float(next(seconds)))
    batch = 0
    X = next(play(ACTORS, n_rows=300, n_batches=1))
    labels = np.zeros(300, dtype=np.int64)

    def go_on(n: int) -> None:
        nonlocal batch
        for _ in range(n):
            batch += 1
            live.add_version(show.model_version(batch=batch), X=X, labels=labels)

    go_on(700)  # more moments than are kept
    page.set_viewport_size({"width": 400, "height": 400})
    with Stage(live) as stage:
        opened(page, stage)
        page.evaluate(
            "window.seen = 0; new MutationObserver(() => (window.seen += 1)).observe("
            "document.documentElement, { attributeFilter: ['data-batch'] })"
        )
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")

        def watch(until: int) -> tuple[float, float]:
            """Elements, and the heap: the least of five values, because work is under way."""
            measured = []
            for n in range(until - 80, until + 1, 20):
                while page.evaluate("window.seen") < n:
                    go_on(1)
                    page.wait_for_timeout(1)
                session.send("HeapProfiler.collectGarbage")
                metrics = session.send("Performance.getMetrics")["metrics"]
                measured.append({entry["name"]: entry["value"] for entry in metrics})
            return measured[-1]["Nodes"], min(found["JSHeapUsedSize"] for found in measured)

        (early_nodes, early_heap), (late_nodes, late_heap) = watch(100), watch(300)
        summaries = page.evaluate("import('/page/store.js').then(m => m.store.summaries.length)")
    assert summaries == 600
    assert late_nodes <= early_nodes + 20
    assert late_heap < early_heap + 500_000


def test_summaries_are_merged_in_the_browser_as_in_the_service(page: Page, stage: Stage) -> None:
    opened(page, stage)
    rng = np.random.default_rng(3)
    for _ in range(5):
        pair = [random_moment(rng, batch) for batch in (4, 5)]
        shown_rows = [json.dumps(each.to_dict()) for each in pair]
        found = page.evaluate(JOINED, shown_rows)
        wanted = pair[0].merged_with(pair[1]).to_dict()
        assert found["ids"] == np.cumsum(wanted["ids"]).tolist()
        assert np.allclose(found["shares"], 1e-5 * np.array(wanted["shares"]), atol=2e-5)
        for name in set(wanted) - {"ids", "shares"}:
            same = [np.nan if value is None else value for value in (found[name], wanted[name])]
            assert np.allclose(same[0], same[1], rtol=1e-4, equal_nan=True), name


def random_moment(rng: np.random.Generator, batch: int) -> Summary:
    rows = int(rng.integers(0, 3)) * 7
    density = float(rng.normal()) if rows else float("nan")
    share = rng.dirichlet(np.ones(300))
    ids = np.sort(rng.choice(700, 300, replace=False))
    return Summary(
        batch=batch,
        time=float(batch),
        first=batch,
        last=batch,
        batches=int(rng.integers(1, 5)),
        rows=rows,
        novel=rows // 7,
        clusters=9,
        min_clusters=int(rng.integers(1, 9)),
        max_clusters=int(rng.integers(9, 20)),
        density=density,
        lowest=density,
        highest=density,
        outside=0.1,
        shares=Shares(ids, share),
    )

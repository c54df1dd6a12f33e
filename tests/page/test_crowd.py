"""The page with many clusters: 30 in 16 columns and 300 in 384, in a real browser."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.serve.app import create_app
from scstream.serve.live import Live
from scstream.serve.model import LocalModel
from scstream.serve.settings import ServiceSettings
from scstream.stream.model_version import ModelVersion
from tests.page.stage import CHOSEN, INK, ROWS, Crowd, Show, Stage, browser, complaints, opened

HOSTILE = [
    "<img src=x onerror=window.hurt=1>",
    "<script>window.hurt=1</script>",
    "\"><svg onload='window.hurt=1'>",
    "javascript:window.hurt=1",
    "&lt;b&gt; {{7*7}} ${7*7} \u202eright to left",
    "n" * 200,
]
LONGEST = 50.0  # milliseconds of a core for one task of the page
CATEGORIES = ["toplevel", "disabled-by-default-devtools.timeline"]


class Played:
    """A crowd that has learned for a while as fast as it could, and then learns on demand."""

    def __init__(self, n_clusters: int, n_columns: int, n_batches: int) -> None:
        seconds, self.fast = count(), True
        self.live = Live(
            clock=lambda: float(next(seconds)) if self.fast else 1e6 + time.monotonic()
        )
        self.crowd = Crowd(self.live, n_clusters=n_clusters, n_columns=n_columns)
        for _ in range(n_batches):
            self.crowd.learn()
        self.fast = False


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    found = chromium.new_page(viewport={"width": 1400, "height": 1000}, reduced_motion="reduce")
    yield found
    found.close()


@pytest.fixture(scope="module")
def many() -> Iterator[Stage]:
    """300 clusters in 384 columns that stay as they are."""
    with Stage(Played(300, 384, 60).live) as stage:
        yield stage


def ids(page: Page) -> list[int]:
    found: list[int] = page.eval_on_selector_all(ROWS, "all => all.map(e => e.cluster)")
    return found


def in_sight(page: Page, selector: str) -> bool:
    found: bool = page.eval_on_selector(
        selector,
        """e => { const box = e.closest(".scroll").getBoundingClientRect();
        const { top, bottom } = e.getBoundingClientRect();
        return top >= box.top && bottom <= box.bottom + 1; }""",
    )
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_selected_cluster_is_seen_in_every_panel(page: Page, many: Stage, theme: str) -> None:
    """The lightest of 300: its colour is pure, that of all others is dimmed."""
    page.emulate_media(color_scheme=theme)
    opened(page, many)
    lightest = many.live.picture()["shown"]["id"][-1]
    page.fill("#search", str(lightest))
    page.keyboard.press("Enter")
    page.fill("#search", "")
    expect(page.locator("#detail .who")).to_contain_text(f"Cluster {lightest}")
    page.wait_for_timeout(300)
    colour = page.evaluate(f"import('/page/marks.js').then(m => m.palette().of({lightest}))")
    for panel in ("map", "shares", "lineage"):
        assert page.evaluate(INK, [colour, panel]) > 0, panel
    assert page.eval_on_selector(CHOSEN, "e => e.cluster") == lightest and in_sight(page, CHOSEN)
    page.eval_on_selector(".clusters .scroll", "e => e.scrollTo(0, 1e6)")
    page.wait_for_timeout(100)
    assert page.eval_on_selector(CHOSEN, "e => e.cluster") == lightest and in_sight(page, CHOSEN)


def test_rows_can_be_sorted_by_every_column(page: Page, many: Stage) -> None:
    opened(page, many)
    shown: Any = many.live.picture()["shown"]
    keys = {"present": -1, "id": 1, "share": -1, "born": -1, "last_seen": -1}
    by_id = {id: k for k, id in enumerate(shown["id"])}
    assert ids(page)[:10] == shown["id"][:10]
    for column, sign in list(keys.items())[1:]:
        for direction in (sign, -sign):
            page.click(f"th[data-column={column}] button")
            order = ids(page)[:10]
            wanted = sorted(by_id, key=lambda id: (direction * shown[column][by_id[id]], id))
            assert order == wanted[:10], (column, direction)
        said = page.get_attribute(f"th[data-column={column}]", "aria-sort")
        assert said == ("ascending" if -sign == 1 else "descending")
    assert page.get_attribute("#table", "aria-rowcount") == "301"


def test_all_rows_are_reached_though_few_are_in_the_page(page: Page, many: Stage) -> None:
    opened(page, many)
    page.click("th[data-column=id] button")
    assert len(ids(page)) < 60
    page.eval_on_selector(".clusters .scroll", "e => e.scrollTo(0, 1e6)")
    expect(page.locator(ROWS).last).to_have_attribute("aria-rowindex", "301")
    page.focus(f"{ROWS} >> nth=0")
    page.keyboard.press("ArrowUp")
    assert in_sight(page, CHOSEN)
    assert page.evaluate("document.activeElement.matches('[aria-selected=true]')")


def test_a_search_finds_ids_and_names_by_keys_alone(page: Page) -> None:
    played = Played(30, 16, 20)
    played.crowd.names = {7: "Billing", 12: "late billing"}
    with Stage(played.live) as stage:
        opened(page, stage)
        played.crowd.learn()
        expect(page.locator("#table")).to_have_attribute("data-names", "true")
        page.keyboard.press("/")
        expect(page.locator("#search")).to_be_focused()
        page.keyboard.type("BILLING")
        assert sorted(ids(page)) == [7, 12]
        expect(page.locator("#clusters-readout")).to_have_text("2 found")
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.cluster") == ids(page)[0]
        page.keyboard.press("Enter")
        expect(page.locator(CHOSEN)).to_have_count(1)
        page.keyboard.press("/")
        page.keyboard.press("Escape")
        assert page.input_value("#search") == ""
        expect(page.locator("#table")).to_have_attribute("aria-rowcount", "31")
        page.fill("#search", "12")
        assert 12 in ids(page)


def test_axes_and_limits_stay_until_the_reader_changes_them(page: Page) -> None:
    played = Played(30, 16, 20)
    look = """() => Promise.all([import("/page/limits.js"), import("/page/store.js")])
      .then(([{ moveLimits }, { store }]) => [
        document.getElementById("map-axes").textContent,
        [...moveLimits(store.picture, { left: 0, right: 600, top: 0, bottom: 400 }, false).limits],
      ])"""
    with Stage(played.live) as stage:
        opened(page, stage)
        first = page.evaluate(look)
        for _ in range(40):
            played.crowd.learn()
        expect(page.locator("#n-batches")).to_have_text("60")
        assert page.evaluate(look) == first
        page.click("#fit")
        page.wait_for_function(
            "(words) => document.getElementById('map-axes').textContent !== words", arg=first[0]
        )
        page.click("#follow")
        expect(page.locator("#follow")).to_have_attribute("aria-pressed", "true")
        page.wait_for_function(
            "() => import('/page/store.js').then(m => m.store.picture.view.follows)"
        )


def test_hostile_names_are_words_and_nothing_else(page: Page) -> None:
    played = Played(30, 16, 20)
    played.crowd.names = dict(zip(range(3, 30), HOSTILE * 4, strict=False))
    found = complaints(page)
    with Stage(played.live) as stage:
        played.crowd.learn()
        opened(page, stage)
        for row in range(8):
            page.locator(ROWS).nth(row).click()
            page.wait_for_timeout(30)
        shown = set(page.eval_on_selector_all("#rows .name", "all => all.map(e => e.textContent)"))
        assert set(HOSTILE) <= shown
        assert page.evaluate("window.hurt") is None and found == []
        assert page.locator("img, main script, [onload], [onerror]").count() == 0
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 1400


def learned() -> ModelVersion:
    """A model of three clusters."""
    rng = np.random.default_rng(0)
    centres = 9.0 * np.eye(3)
    return Show(Live()).learn(centres[rng.integers(3, size=300)] + rng.normal(size=(300, 3)))


def test_a_name_is_changed_in_place_with_a_token_that_stays_in_the_tab(page: Page) -> None:
    """The service, with a token to read and another one to write."""
    version, live = learned(), Live()
    settings = ServiceSettings(token="reader", write_token="pencil")
    model = LocalModel(version)
    app = create_app(model, settings, live=live)
    app.state.service.begin()
    with Stage(live, app=app) as stage:
        page.goto(stage.address)
        page.fill("#token", "reader")
        page.keyboard.press("Enter")
        page.locator(ROWS).first.click()
        id = page.eval_on_selector(CHOSEN, "e => e.cluster")
        page.focus(CHOSEN)
        page.keyboard.press("F2")
        page.keyboard.type("<b>billing</b>")
        page.keyboard.press("Enter")
        expect(page.locator("#write-token")).to_be_focused()
        assert model.current().model.names == {}
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#naming-says")).to_have_text("That token may not change names.")
        page.keyboard.type("pencil")
        page.keyboard.press("Enter")
        expect(page.locator(f"{CHOSEN} .name")).to_have_text("<b>billing</b>")
        expect(page.locator("#naming-says")).to_have_text("Named.")
        assert model.current().model.names == {id: "<b>billing</b>"}
        expect(page.locator("#events li").first).to_contain_text("was named “<b>billing</b>”")
        kept = page.evaluate("[JSON.stringify(sessionStorage), JSON.stringify(localStorage)]")
        assert "pencil" in kept[0] and "pencil" not in kept[1] + page.content() + page.url
        page.fill("#cluster-name", "two\u200blines")
        page.keyboard.press("Enter")
        expect(page.locator("#naming-says")).to_contain_text("Not named: a name has at most")
        page.keyboard.press("Escape")
        expect(page.locator("#cluster-name")).to_have_value("<b>billing</b>")
        page.fill("#cluster-name", "")
        page.keyboard.press("Enter")
        expect(page.locator(f"{CHOSEN} .name")).to_have_text("")
        assert model.current().model.names == {}


def test_without_a_write_token_names_are_only_read(page: Page) -> None:
    version, live = learned(), Live()
    app = create_app(LocalModel(version), ServiceSettings(), live=live)
    app.state.service.begin()
    with Stage(live, app=app) as stage:
        opened(page, stage)
        page.locator(ROWS).first.click()
        expect(page.locator("#detail .who")).to_have_count(1)
        expect(page.locator("#naming")).to_be_hidden()


def test_exemplars_are_shown_as_words(page: Page) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 2)), 20.0 + rng.normal(size=(100, 2))])
    texts = [f"{HOSTILE[0]} {i}" for i in range(300)] + [None] * 100
    ids = [None] * 300 + [f"ticket {i}" for i in range(100)]
    model = Settings(exemplars=3, random_state=0).update(X, ids=ids, texts=texts).model
    live = Live()
    version = ModelVersion(1, 1, 0.0, None, model, Steps())
    app = create_app(LocalModel(version), ServiceSettings(), live=live)
    app.state.service.begin()
    with Stage(live, app=app) as stage:
        opened(page, stage)
        page.locator(ROWS).first.click()
        expect(page.locator("#exemplars li")).to_have_count(3)
        expect(page.locator("#exemplars li").first).to_contain_text(HOSTILE[0])
        page.locator(ROWS).nth(1).click()
        expect(page.locator("#exemplars li").first).to_contain_text("ticket")
        assert page.evaluate("window.hurt") is None and page.locator("#exemplars img").count() == 0


def test_levels_are_the_groups_of_the_model(page: Page) -> None:
    played = Played(60, 16, 20)
    with Stage(played.live) as stage:
        opened(page, stage)
        page.locator(ROWS).nth(5).click()
        model = played.crowd.learn().model
        page.focus("#level")
        for position in (19, 10, 5, 0):
            while int(page.input_value("#level")) > position:
                page.keyboard.press("ArrowLeft")
            expect(page.locator("#level-says")).to_contain_text("group")
            page.wait_for_timeout(200)
            found = page.evaluate(
                """import("/page/units.js").then((units) =>
                import("/page/store.js").then(({ store }) =>
                [store.resolution === Infinity ? 1e300 : store.resolution,
                 [...units.cut(store.tree, store.resolution)], units.allUnits().length]))"""
            )
            groups = model.groups(min(found[0], 1e9))
            wanted = list(zip(groups.cluster.tolist(), groups.group.tolist(), strict=True))
            assert [tuple(pair) for pair in found[1]] == wanted and found[2] == len(groups)
            heaviest = page.evaluate(
                "import('/page/units.js').then(m => m.allUnits().slice(0, 5).map(u => u.id))"
            )
            assert ids(page)[:5] == heaviest
        assert found[2] == 1
        expect(page.locator("#detail .who")).to_contain_text(f"Group {groups.id[0]}:")
        expect(page.locator(ROWS)).to_have_count(1)


@pytest.mark.parametrize(("n_clusters", "n_columns"), [(30, 16), (300, 384)])
def test_no_task_of_the_page_is_long(
    chromium: Browser, page: Page, n_clusters: int, n_columns: int
) -> None:
    """Four batches a second, time of the processor of every task of the page's main thread."""
    played, ended = Played(n_clusters, n_columns, 60), threading.Event()

    def go_on() -> None:
        while not ended.wait(0.25):
            played.crowd.learn()

    with Stage(played.live) as stage:
        opened(page, stage)
        page.locator(ROWS).nth(2).click()
        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            page.wait_for_timeout(500)
            before = int(page.get_attribute("html", "data-batch") or 0)
            chromium.start_tracing(page=page, categories=CATEGORIES)
            page.wait_for_timeout(2500)
            trace = json.loads(chromium.stop_tracing())
            n_batches = int(page.get_attribute("html", "data-batch") or 0) - before
        finally:
            ended.set()
            thread.join()
    events = trace["traceEvents"]
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = [
        event["tdur"] / 1000
        for event in events
        if (event["pid"], event["tid"]) in main
        and event["name"] == "RunTask"
        and "tdur" in event  # not of one that had begun before
    ]
    assert len(tasks) > 50 and n_batches >= 2
    assert max(tasks) < LONGEST, f"{max(tasks):.0f} ms"

"""Drives the console of salt-api with Chromium.

Arguments: the master's configuration file, and a JSON map: `part` (one of the functions below), `url`, `user`, `password`,
`minions`, `shots` (the directory of screenshots) and `axe` (the file with axe-core, or nothing). Prints a JSON map of checks: the
name, and what was wrong, or nothing. A line that says `ready` comes before, where the test has to do something in between.
"""

import json
import os
import re
import sys
import time

from playwright.sync_api import sync_playwright

ASKED = json.loads(sys.argv[2])
URL, SHOTS, AXE = ASKED["url"], ASKED["shots"], ASKED.get("axe")
# What Chromium fetches by itself is no request of the page.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]
PAGES = {
    "overview": "/", "minions": "/minions", "keys": "/keys",
    "decisions": "/keys/decisions", "jobs": "/jobs", "highstate": "/highstate", "events": "/events", "run": "/run?tgt=*&fun=test.ping",
    "access": "/access", "drift": "/drift/acl", "missing": "/nosuch",
}
# In milliseconds, on a busy machine.
LONG = 60_000

checks = {}


def check(name, good, detail=""):
    """Notes whether something is as it should be. A check that failed once has failed."""
    if good:
        checks.setdefault(name, "")
    else:
        checks[name] = str(detail) or "it is not so"


class Session:
    """A browser window with its own cookies, which notes everything that a page must not do."""

    def __init__(self, browser, **how):
        self.context = browser.new_context(base_url=URL, **how)
        self.page = self.context.new_page()
        self.page.set_default_timeout(LONG)
        self.page.on("console", self.said)
        self.page.on("pageerror", lambda error: check("no errors of scripts", False, error))
        self.page.on("request", self.requested)

    def said(self, message):
        text = message.text
        # Refusals of the master are answers, not faults of the page.
        if message.type == "error" and not text.startswith("Failed to load resource"):
            check("the browser reports nothing", False, text)

    def requested(self, request):
        own = request.url.startswith((URL, "data:", "about:"))
        check("no request leads to another site", own, request.url)

    def open(self, path):
        return self.page.goto(f"/console{path}", wait_until="domcontentloaded")

    def log_in(self, password=ASKED["password"], next_page=""):
        self.open("/login" + next_page)
        self.page.fill("input[name=username]", ASKED["user"])
        self.page.fill("input[name=password]", password)
        self.page.click("button:has-text('Log in')")
        self.page.wait_for_load_state("domcontentloaded")

    def shot(self, name):
        self.page.screenshot(path=os.path.join(SHOTS, f"{name}.png"))

    def fits(self, name):
        width = self.page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
        check(f"{name}: fits the width of the window", width[0] <= width[1], f"{width[0]} > {width[1]}")

    def looks_right(self, name, rules=None):
        """Checks what holds for each page: nothing is cut off, and the rules of accessibility, or some of them."""
        self.fits(name)
        if AXE:
            if not self.page.evaluate("'axe' in window"):
                self.page.evaluate(AXE_TEXT)
            found = self.page.evaluate(
                "rules => axe.run(document, {resultTypes: ['violations'], ...(rules && {runOnly: rules})})", rules
            )["violations"]
            told = [f"{one['id']}: {one['help']}: " + "; ".join(node["html"][:200] for node in one["nodes"][:3]) for one in found]
            check(f"{name}: rules of accessibility", not found, " | ".join(told))


def logins(browser):
    """A login that fails says so and keeps the name; one that succeeds leads to the page that was wanted."""
    session = Session(browser)
    session.open("/jobs?state=failed")
    check("without a session there is the login", "/login?next=" in session.page.url, session.page.url)
    session.looks_right("login")
    session.shot("login")
    session.log_in("wrong", "?next=jobs%3Fstate%3Dfailed")
    alert = session.page.inner_text("[role=alert]")
    check("a wrong password is told", "wrong" in alert, alert)
    check("the name is kept", session.page.input_value("input[name=username]") == ASKED["user"])
    session.shot("login-failed")
    session.page.fill("input[name=password]", ASKED["password"])
    session.page.click("button:has-text('Log in')")
    session.page.wait_for_url(re.compile("/console/jobs"))
    check("the login leads to the page that was wanted", session.page.url.endswith("/jobs?state=failed"), session.page.url)
    session.page.click("button:has-text('Log out')")
    session.page.wait_for_url(re.compile("/console/login"))
    session.open("/jobs")
    check("a session that has ended is over", "/login" in session.page.url, session.page.url)


def pages(browser):
    """Each page, light, dark, narrow, and without JavaScript."""
    minion = ASKED["minions"][0]
    all_pages = dict(PAGES, minion=f"/minions/{minion}", pillar=f"/minions/{minion}?show=pillar",
                     schedule=f"/minions/{minion}?show=schedule", job=f"/jobs/{ASKED['job']}", matrix=f"/highstate/{ASKED['states']}")
    session, plain = Session(browser), Session(browser, java_script_enabled=False)
    session.log_in()
    plain.log_in()
    for name, path in all_pages.items():
        answer = session.open(path)
        expected = 404 if name == "missing" else 200
        check(f"{name}: status", answer.status == expected, answer.status)
        session.looks_right(name)
        session.shot(f"{name}-light")
        session.page.emulate_media(color_scheme="dark")
        session.looks_right(f"{name}, dark", ["color-contrast"])
        session.shot(f"{name}-dark")
        session.page.set_viewport_size({"width": 360, "height": 740})
        session.fits(f"{name}, narrow")
        session.shot(f"{name}-narrow")
        session.page.emulate_media(color_scheme="light")
        session.page.set_viewport_size({"width": 1280, "height": 720})
        plain.open(path)
        words = plain.page.inner_text("main")
        check(f"{name}: has content without JavaScript", len(words) > 40, words)
        plain.shot(f"{name}-plain")
    session.context.close()
    plain.context.close()


def keys(browser):
    """Accepts a key with one click."""
    session = Session(browser)
    session.log_in()
    session.open("/keys")
    session.page.wait_for_selector(f"th:has-text('{ASKED['pending']}')")
    session.page.click(f"button[aria-label='Accept {ASKED['pending']}']")
    session.page.wait_for_selector(".notice:has-text('Accepted 1 key')")
    session.shot("key-accepted")
    session.open("/keys/decisions")
    check("the decision is listed", ASKED["pending"] in session.page.inner_text("#decisions"))
    session.page.click(f"button[aria-label='Undo the decision about {ASKED['pending']}']")
    session.page.wait_for_selector("h1:has-text('Undo decisions')")
    check("undoing shows what would change first", "Change 1 key" in session.page.inner_text("main"), session.page.inner_text("main"))
    session.shot("undo")
    session.page.click("a:has-text('Cancel')")
    session.page.wait_for_url(re.compile("/console/keys/decisions"))
    session.open("/keys?state=accepted")
    check("a look undoes nothing", ASKED["pending"] in session.page.inner_text("main"), session.page.inner_text("main"))
    session.open("/jobs?runners=1")
    check("decisions about keys are jobs", "wheel.key.accept_dict" in session.page.inner_text("main"))


def undo(browser):
    """Undoes the decision about a key, and accepts it once more."""
    session = Session(browser)
    session.log_in()
    session.open("/keys/decisions")
    session.page.click(f"button[aria-label='Undo the decision about {ASKED['pending']}']")
    session.page.click("button:has-text('Change 1 key on all masters')")
    session.page.wait_for_selector(".notice:has-text('Undid the decisions about 1 key')")
    session.looks_right("undone")
    session.shot("undone")
    session.open("/keys")
    session.page.wait_for_selector(f"button[aria-label='Accept {ASKED['pending']}']")
    check("the key waits again", ASKED["pending"] in session.page.inner_text("main"))


def run(browser):
    """Runs a function as an operator does: preview, documentation, run; and by keyboard alone."""
    session = Session(browser)
    session.log_in()
    session.page.keyboard.press("/")
    session.page.wait_for_url(re.compile("/console/minions"))
    session.page.wait_for_function("document.activeElement.name === 'q'")
    session.page.keyboard.press("Escape")
    session.page.keyboard.press("r")
    session.page.wait_for_url(re.compile("/console/run"))
    session.page.fill("input[name=tgt]", "*")
    session.page.fill("input[name=fun]", "test.version")
    session.page.wait_for_selector("#preview button:has-text('Run test.version on')")
    session.page.click("button:has-text('Documentation')")
    session.page.wait_for_selector("#doc pre")
    check("the documentation is shown", "version" in session.page.inner_text("#doc").lower(), session.page.inner_text("#doc"))
    session.shot("run-documentation")
    session.page.click("#preview button:has-text('Run test.version on')")
    session.page.wait_for_url(re.compile("/console/jobs/"))
    count = len(ASKED["minions"])
    session.page.wait_for_selector(f"#counts:has-text('{count} of {count} returned')")
    session.open("/run")
    check("it is among the latest commands", "test.version" in session.page.inner_text("#recent"))
    session.open("/run?tgt=*&fun=test.ping&batch=1")
    session.page.click("#preview button:has-text('1 at a time')")
    session.page.wait_for_url(re.compile("/console/jobs/"))
    session.page.wait_for_selector(f"#counts:has-text('{count} of {count} returned')")
    session.open(f"/minions/{ASKED['minions'][0]}?show=schedule")
    session.page.click("button:has-text('Ask the minion')")
    session.page.wait_for_selector("#told pre, #told p")
    session.shot("schedule-asked")


def outage(browser):
    """The master is killed while a page follows a job, and comes back."""
    session = Session(browser)
    session.log_in()
    session.open(f"/run?tgt=*&fun=test.sleep&arg=5")
    session.page.click("#preview button:has-text('Run test.sleep on')")
    session.page.wait_for_url(re.compile("/console/jobs/"))
    session.page.wait_for_selector("#live:has-text('live')")
    print("ready", flush=True)
    session.page.wait_for_selector("#lost:not([hidden])")
    session.page.wait_for_function("/master does not answer|connection/.test(document.getElementById('lost').textContent)")
    session.shot("master-away")
    print("the master is away", flush=True)
    count = len(ASKED["minions"])
    session.page.wait_for_selector(f"#counts:has-text('{count} of {count} returned')")
    session.page.wait_for_selector("#lost", state="hidden")
    session.page.wait_for_selector("#live:has-text('live')")
    session.shot("master-back")


def thousand(browser):
    """A job of a thousand minions, live."""
    session = Session(browser)
    session.log_in()
    session.open(f"/run?tgt={ASKED['target']}&fun=state.highstate")
    session.page.click("#preview button:has-text('Run state.highstate on')")
    session.page.wait_for_url(re.compile("/console/jobs/"))
    seen = set()
    until = time.monotonic() + LONG / 1000
    while time.monotonic() < until:
        words = session.page.inner_text("#counts").replace("\u202f", "")
        counted = re.search(r"(\d+)\s+of\s+1000\s+returned", words)
        if not counted:
            raise ValueError(f"the page counts no returns of 1000: {words}")
        seen.add(int(counted.group(1)))
        if 1000 in seen:
            break
        session.page.wait_for_timeout(100)
    check("all thousand returns come", 1000 in seen, max(seen))
    check("the page counts while they come", len(seen) > 2, sorted(seen))
    small(session, "job of a thousand")
    session.looks_right("job of a thousand")
    session.shot("thousand-returns")
    session.page.click("a:has-text('Matrix')")
    session.page.wait_for_selector("#matrix")
    small(session, "matrix of a thousand")
    session.shot("thousand-matrix")


def many(browser):
    """Ten thousand minions, page by page."""
    session = Session(browser)
    session.log_in()
    session.open("/minions")
    session.looks_right("ten thousand minions")
    session.shot("ten-thousand-minions")
    # From the beginning, and from near the end: the pages between are alike.
    first = turn_pages(session, 5)
    check("each page has other minions", len(first) == 5 * 200, len(first))
    session.open(f"/minions?after={ASKED['near_end']}")
    last = turn_pages(session, 5)
    check("the last page ends with the last minion", max(last) == ASKED["last"] and not first & last, max(last))
    session.open(f"/minions?q={ASKED['one']}")
    check("a search finds one", ASKED["one"] in session.page.inner_text("#minions"))
    session.open("/")
    small(session, "overview of ten thousand minions")
    session.shot("ten-thousand-overview")


def turn_pages(session, most):
    """Reads a page of minions, and the following ones. Returns the ids."""
    found = set()
    for number in range(most):
        session.page.evaluate("scrollTo(0, document.body.scrollHeight)")
        found.update(session.page.eval_on_selector_all("#minions tbody th", "all => all.map(one => one.textContent.trim())"))
        small(session, "page of ten thousand minions")
        if number + 1 == most or not session.page.query_selector("#minions a:text-is('Next')"):
            break
        # A page that follows events may replace the link at any time.
        with session.page.expect_navigation(wait_until="domcontentloaded"):
            session.page.click("#minions a:text-is('Next')")
    return found


def small(session, name):
    """A page stays small, however many minions there are."""
    nodes, heap = session.page.evaluate("[document.querySelectorAll('*').length, performance.memory.usedJSHeapSize]")
    check(f"{name}: at most 6,000 elements", nodes <= 6000, nodes)
    check(f"{name}: at most 60 MB", heap < 60_000_000, heap)


if AXE:
    with open(AXE, encoding="utf-8") as file:
        AXE_TEXT = file.read()
with sync_playwright() as playwright:
    chromium = playwright.chromium.launch(executable_path=ASKED["chromium"], args=FLAGS)
    for part in ASKED["parts"]:
        try:
            globals()[part](chromium)
        except Exception as error:  # What a page does not show in time is a failure like others.
            check(f"{part}: runs to its end", False, str(error)[:2000])
    chromium.close()
print(json.dumps(checks))

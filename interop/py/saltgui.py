"""Drives SaltGUI, an unmodified checkout that salt-api serves, with Chromium.

Arguments: the master's configuration file, and a JSON map: `url`, `user`, `password`, `minion`, `shots` (the beginning of the paths of
screenshots) and `chromium`. Prints a JSON map: for each page the lines that it shows, without what differs from run to run, and
below `errors` what the browser reported.
"""

import json
import re
import sys
import time

from playwright.sync_api import sync_playwright

ASKED = json.loads(sys.argv[2])
URL, MINION = ASKED["url"], ASKED["minion"]
# In milliseconds, on a busy machine.
LONG = 60_000
# Each page, and words that it shows when it has got everything.
PAGES = {
    "minions": ["127.0.0.1", "Salt version"],
    "keys": [MINION, "accepted"],
    "grains": [MINION, "grain"],
    "pillars": [MINION, "pillars"],
    "mine": [MINION],
    "beacons": [MINION],
    "schedules": [MINION],
    "nodegroups": ["web"],
    "highstate": [MINION],
    "issues": ["Issues"],
}
errors = []


def shown(page, name):
    """The lines of a page, without its list of jobs, when nothing changes any more."""
    panel = f"#{name}-panel"
    for words in PAGES[name]:
        page.wait_for_function(
            "([panel, words]) => document.querySelector(panel)?.innerText.includes(words)", arg=[panel, words]
        )
    last = None
    until = time.monotonic() + LONG / 1000
    while time.monotonic() < until:
        text = page.inner_text(panel)
        if text == last and "loading" not in text.lower():
            return stable(text)
        last = text
        page.wait_for_timeout(700)
    raise ValueError(f"the page {name} does not come to rest: {last}")


def stable(text):
    """The lines without job ids, times, spaces, and fingerprints: salt-key of 3008.5 prints others than minions do."""
    text = re.sub(r"(?:[0-9a-f]{2}:){31}[0-9a-f]{2}", "FINGERPRINT", text)
    text = re.sub(r"\b20\d{18}\b", "JID", text)
    text = re.sub(r"\b20\d\d[-, ].*?\d\d:\d\d:\d\d(\.\d+)?\b", "TIME", text)
    text = re.sub(r"\d+ (grains?|jobs?)", r"N \1", text)
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return [line for line in lines if line]


def command(page):
    """What a command prints that is typed into the box."""
    page.click("#button-manual-run")
    page.fill("#target", MINION)
    page.fill("#command", "test.echo text")
    page.click("#run-command")
    page.wait_for_function("document.querySelector('#popup-output').innerText.includes('text')")
    lines = stable(page.inner_text("#popup-output"))
    page.click("#cmd-close-button")
    return lines


def look(browser):
    page = browser.new_context(viewport={"width": 1280, "height": 720}).new_page()
    page.set_default_timeout(LONG)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    found = {}
    page.goto(URL, wait_until="domcontentloaded")
    page.fill("#username", ASKED["user"])
    page.fill("#password", ASKED["password"])
    page.select_option("#page-login select", "file")
    page.click("#login-button")
    page.wait_for_selector("#page-minions", state="visible")
    found["command"] = command(page)
    for name in PAGES:
        page.goto(f"{URL}/#{name}", wait_until="domcontentloaded")
        try:
            found[name] = shown(page, name)
        finally:
            page.screenshot(path=f"{ASKED['shots']}-{name}.png")
    # Each page has asked for other things on each side, so lists of jobs are not compared.
    page.goto(f"{URL}/#jobs", wait_until="domcontentloaded")
    page.wait_for_selector("#page-jobs td:has-text('test.echo')")
    page.goto(f"{URL}/#events", wait_until="domcontentloaded")
    command(page)
    # The page is paused until somebody presses a button, and counts meanwhile.
    page.wait_for_selector("#events-panel td:has-text('missed event')")
    page.goto(f"{URL}/#logout", wait_until="domcontentloaded")
    page.wait_for_selector("#login-button", state="visible")
    return found


with sync_playwright() as playwright:
    chromium = playwright.chromium.launch(
        executable_path=ASKED["chromium"], args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
    )
    pages = look(chromium)
    chromium.close()
print(json.dumps(dict(pages, errors=errors)))

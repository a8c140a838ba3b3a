// The console works without this file. It adds: live pages, keys, and marked rows.
const policy = window.trustedTypes?.createPolicy("saltern", { createHTML: (text) => text });
const trusted = (text) => (policy ? policy.createHTML(text) : text);
const base = document.body.dataset.base;
const main = document.querySelector("main");
document.documentElement.classList.add("js");

// Live parts: an event whose tag matches fetches the page again, at most once a second, and replaces what has changed.
// The server has made the page, so foreign text in it is text already.
const watched = (main?.dataset.live ?? "").split(" ").filter(Boolean);
let waiting = false, again = false;

function matches(tag) {
  return watched.some((glob) => new RegExp("^" + glob.split("*").map((part) =>
    part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join("[^/]*")).test(tag));
}

function busy(part) {
  return part.contains(document.activeElement) && /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)
    || part.querySelector("input:checked[type=checkbox]");
}

// What is wrong with what the page shows, and when it was right last.
let trouble = "", loaded = new Date();
const box = document.getElementById("lost");

function clock(date) {
  return new Date(date.getTime() + 60000 * Number(document.body.dataset.offset)).toISOString().slice(11, 19);
}

function lost(why) {
  if (why === trouble) return;
  trouble = why;
  if (box) {
    box.textContent = why && why + (log ? " Events since " : " The page shows what was known at ") + clock(loaded) + (log ? " are missing." : ".");
    box.hidden = !why;
  }
  if (why) say("bad", "not up to date");
  else sayOpen();
}

// Loads the page again. Returns its text, or null and says why there is none.
async function load() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" }).catch(() => null);
  if (!answer) lost("The connection to salt-api is lost.");
  else if (answer.redirected) location.assign(answer.url);
  else if (answer.status === 503 || answer.status === 504) lost("The master does not answer.");
  else if (!answer.ok) lost("The page cannot be loaded again (" + answer.status + ").");
  else return answer.text().catch(() => null);
  return null;
}

async function refresh() {
  if (waiting) { again = true; return; }
  waiting = true;
  const text = await load();
  if (text !== null) {
    if (!log) loaded = new Date();
    // The stream itself says when events come again.
    if (!log || stream?.readyState === EventSource.OPEN) lost("");
    swap(text);
  }
  setTimeout(() => {
    waiting = false;
    if (again) { again = false; refresh(); }
  }, 1000);
}

const last = new Map();

// Finds the element of a new part that stands for one of the old part.
function counterpart(node, old) {
  const sign = (one) => [one.id, one.getAttribute("href"), one.getAttribute("value"), one.closest("[id]")?.id, one.textContent].join("\n");
  return [...node.querySelectorAll(old.tagName)].find((one) => sign(one) === sign(old));
}

function swap(text) {
  const page = new DOMParser().parseFromString(trusted(text), "text/html");
  for (const part of document.querySelectorAll("[data-part]")) {
    const fresh = page.getElementById(part.id);
    if (!fresh || fresh.outerHTML === last.get(part.id) || busy(part)) continue;
    const folds = [...part.querySelectorAll("details[id]")];
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const node = document.importNode(fresh, true);
    last.set(part.id, fresh.outerHTML);
    part.replaceWith(node);
    for (const fold of folds) document.getElementById(fold.id)?.toggleAttribute("open", fold.open);
    if (focused) {
      const same = counterpart(node, focused);
      same?.focus({ preventScroll: true });
      row = same ? rows().indexOf(same.closest("tr")) : -1;
      rows()[row]?.classList.add("row-on");
    }
  }
  if (page.title) document.title = page.title;
}

let stream = null, retry = 0;
const sign = document.getElementById("live");
const log = document.getElementById("events");
const own = main?.dataset.own !== undefined;

function say(state, text) {
  if (!sign) return;
  sign.hidden = false;
  sign.querySelector(".dot").className = "dot " + state;
  sign.querySelector("span:last-child").textContent = text;
}

function sayOpen() {
  if (stream?.readyState !== EventSource.OPEN) say("warn", "every 15 s");
  else if (own) say("ok", log ? "live: your own jobs" : "every 15 s; your own jobs live");
  else say("ok", "live");
}

function listen() {
  clearTimeout(retry);
  if (stream || document.hidden || !(watched.length || log)) return;
  stream = new EventSource(base.replace(/\/console$/, "") + "/events");
  stream.onopen = () => {
    lost("");
    sayOpen();
    // Events may have come between the page and the stream.
    if (watched.length) refresh();
  };
  stream.onerror = () => {
    // A browser gives up when the answer is no stream, such as that of a master that is away.
    if (stream?.readyState === EventSource.CLOSED) {
      stream = null;
      retry = setTimeout(listen, 3000);
    }
    if (!trouble) sayOpen();
    refresh();
  };
  stream.onmessage = (message) => {
    let event;
    try { event = JSON.parse(message.data); } catch { return; }
    if (watched.length && matches(event.tag)) refresh();
    if (log) { loaded = new Date(); note(event); }
  };
}

// A hidden tab holds no connection: browsers allow few for one site.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) { stream?.close(); stream = null; }
  else { listen(); if (watched.length) refresh(); }
});

// Not everything that a page shows has an event, such as a minion that goes away.
setInterval(() => { if (watched.length && !document.hidden) refresh(); }, 15000);

// The page of a failure goes away when the master answers.
if (main?.dataset.returns !== undefined) {
  setInterval(async () => { if (!document.hidden && await load() !== null) location.replace(location.href); }, 5000);
}

// The page of events.
const most = 500;
let paused = false, held = [];

function shown(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (letter) => "\\u" + letter.charCodeAt(0).toString(16).padStart(4, "0"));
}

function element(name, text, className) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function gist(data) {
  const parts = [];
  for (const name of ["id", "fun", "tgt", "act", "success", "retcode"]) {
    if (data && data[name] !== undefined) parts.push(name + "=" + JSON.stringify(data[name]));
  }
  return shown(parts.join(" ").slice(0, 200));
}

function note(event) {
  if (paused) {
    held.push(event);
    if (held.length > most) held.shift();
    document.getElementById("pause").textContent = "Go on (" + held.length + ")";
    return;
  }
  const tag = shown(String(event.tag)), filter = document.getElementById("filter").value.trim();
  const item = element("li"), details = element("details"), summary = element("summary");
  // The master stamps events in UTC.
  const stamp = new Date(String(event.data?._stamp ?? "") + "Z");
  const time = element("time", clock(isNaN(stamp) ? new Date() : stamp));
  summary.append(time, element("code", tag.slice(0, 300)), element("span", gist(event.data), "gist wide-only"));
  details.append(summary);
  details.addEventListener("toggle", () => {
    if (details.childElementCount === 1) {
      const text = shown(JSON.stringify(event.data, null, 2) ?? "");
      details.append(element("pre", text.length > 65536 ? text.slice(0, 65536) + "\n… cut" : text, "out"));
    }
  });
  item.dataset.tag = tag;
  item.hidden = !fits(tag, filter);
  item.append(details);
  log.prepend(item);
  document.getElementById("silence")?.remove();
  while (log.childElementCount > most) log.lastElementChild.remove();
}

function fits(tag, filter) {
  if (!filter) return true;
  const glob = filter.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*");
  return new RegExp(filter.includes("*") ? "^" + glob + "$" : glob).test(tag);
}

if (log) {
  document.getElementById("filter").addEventListener("input", (event) => {
    for (const item of log.children) item.hidden = !fits(item.dataset.tag, event.target.value.trim());
  });
  document.getElementById("pause").addEventListener("click", (event) => {
    paused = !paused;
    event.target.textContent = paused ? "Go on" : "Pause";
    if (!paused) { for (const waiting of held) note(waiting); held = []; }
  });
  document.getElementById("clear").addEventListener("click", () => log.replaceChildren());
}

// The page to run a function: who would be reached, while the target is typed.
const run = document.querySelector("form[data-preview]");
let typed = 0;
run?.addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(async () => {
    if (!run.tgt.value.trim()) return;
    const fields = new URLSearchParams(new FormData(run));
    fields.set("act", "preview");
    const answer = await fetch(run.action, { method: "POST", body: fields, headers: { Accept: "text/html" } }).catch(() => null);
    if (!answer || answer.redirected) return;
    const page = new DOMParser().parseFromString(trusted(await answer.text()), "text/html");
    const fresh = page.getElementById("preview");
    if (fresh) document.getElementById("preview").replaceWith(document.importNode(fresh, true));
  }, 400);
});

// Boxes: one for all, and the number in the buttons.
document.addEventListener("change", (event) => {
  if (event.target.dataset.all !== undefined) {
    for (const box of event.target.form.querySelectorAll("input[name=key]")) box.checked = event.target.checked;
  }
});

// Keyboard shortcuts.
const places = { o: "", m: "/minions", k: "/keys", j: "/jobs", h: "/highstate", e: "/events", r: "/run", a: "/access" };
let first = false, row = -1;

function rows() { return [...main.querySelectorAll("tbody tr")].filter((row) => row.querySelector("a, input")); }

function mark(step) {
  const all = rows();
  if (!all.length) return;
  all[row]?.classList.remove("row-on");
  row = Math.min(Math.max(row + step, 0), all.length - 1);
  all[row].classList.add("row-on");
  (all[row].querySelector("a") ?? all[row].querySelector("input")).focus({ preventScroll: true });
  all[row].scrollIntoView({ block: "nearest" });
}

// Puts the cursor into the page's search field, if it has one.
function search() {
  const field = main.querySelector("input[type=search], #filter");
  field?.focus();
  field?.select();
  return field !== null;
}

// `/` on a page without a search field leads to Minions.
if (main && location.hash === "#search") {
  history.replaceState(null, "", location.pathname + location.search);
  search();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !main) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox") {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const key = event.key;
  if (first) {
    first = false;
    if (key in places) location.href = base + (places[key] || "/");
    return;
  }
  const help = document.getElementById("help");
  if (key === "g") { first = true; setTimeout(() => { first = false; }, 1500); }
  else if (key === "r") location.href = base + "/run";
  else if (key === "j") mark(1);
  else if (key === "k") mark(-1);
  else if (key === "?") help?.showModal();
  else if (key === "/") {
    event.preventDefault();
    if (!search()) location.href = base + "/minions#search";
  }
});

listen();

"""Commands a master through salt-api: with pepper, and with plain requests.

Arguments: the master's configuration file, the URL, the password of fred, a minion id. Prints a JSON map of what came back. What
differs from run to run has a placeholder.
"""

import html
import io
import json
import re
import sys
import tarfile
import urllib.error
import urllib.parse
import urllib.request

import pepper

URL, PASSWORD, MINION = sys.argv[2:5]
LOGIN = {"username": "fred", "password": PASSWORD, "eauth": "file"}


def stable(text):
    """Replaces ids, times, fingerprints and the names of the files with the master's own keys."""
    text = re.sub(r"\b[0-9a-f]{2}(:[0-9a-f]{2}){31}\b", "<fingerprint>", text)
    text = re.sub(r'"[^"/]+\.(pem|pub)"', r'"<master>.\1"', text)
    text = re.sub(r"\b20\d{18}\b", "<jid>", text)
    text = re.sub(r"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b", "<token>", text)
    text = re.sub(r'"(start|expire)": [0-9.]+', r'"\1": "<time>"', text)
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.+]+", "<time>", re.sub(r"\d{4}, \w{3} \d\d [0-9:.]+", "<time>", text))


def message(body, kind):
    """Returns the message of an error, which is a page in Salt."""
    if kind.startswith("application/json"):
        return json.loads(body)["return"]
    return html.unescape(re.search(r"<p>(.*?)</p>", body, re.S).group(1))


def send(path, data=None, token=None, method=None, **headers):
    """Sends a request. Data that is a text is a form."""
    headers = {"Accept": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if token:
        headers["X-Auth-Token"] = token
    if data is not None and not isinstance(data, str):
        data = json.dumps(data)
        headers.setdefault("Content-Type", "application/json")
    request = urllib.request.Request(URL + path, None if data is None else data.encode(), headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [answer.status, stable(answer.read().decode())]
    except urllib.error.HTTPError as error:
        return [error.code, stable(message(error.read().decode(), error.headers["Content-Type"]))]


def key_pair(**fields):
    """Makes a key pair, and returns what is in the archive."""
    body = urllib.parse.urlencode({**LOGIN, **fields}).encode()
    with urllib.request.urlopen(urllib.request.Request(URL + "/keys", body, {"Accept": "*/*"})) as answer:
        archive = tarfile.open(fileobj=io.BytesIO(answer.read()))
        files = [[file.name, file.mode, archive.extractfile(file).readline().decode()] for file in archive]
        return [answer.status, answer.headers["Content-Type"], answer.headers["Content-Disposition"], files]


def with_pepper():
    api = pepper.Pepper(URL)
    login = api.login(LOGIN["username"], PASSWORD, "file")
    job = api.local_async(MINION, "test.echo", ["later"])["return"][0]
    return {
        "login": sorted(login),
        "perms": login["perms"],
        "local": api.local(MINION, "test.ping"),
        "local with arguments": api.local(MINION, "test.echo", ["grüße"]),
        "local for nobody": api.local("nobody", "test.ping"),
        "local_async": sorted(job),
        "runner": api.runner("test.arg", one=1),
        "wheel": api.wheel("key.list_all"),
    }


def with_requests():
    token = json.loads(urllib.request.urlopen(
        urllib.request.Request(URL + "/login", urllib.parse.urlencode(LOGIN).encode(), {"Accept": "application/json"})
    ).read())["return"][0]["token"]
    ping = {"client": "local", "tgt": MINION, "fun": "test.ping"}
    form = urllib.parse.urlencode({**LOGIN, **ping, "fun": "test.echo", "arg": "{a: [1, x]}"})
    return {
        "login": send("/login", LOGIN),
        "wrong password": send("/login", {**LOGIN, "password": "wrong"}),
        "token": send("/token", LOGIN),
        "token, wrong password": send("/token", {**LOGIN, "password": "wrong"}),
        "token without a backend": send("/token", {"username": "fred", "password": PASSWORD}),
        "no backend": send("/login", {"username": "fred", "password": PASSWORD}),
        "two commands": send("/", [ping, {**ping, "fun": "test.echo", "arg": ["x"], "kwarg": {}}], token),
        "full return": send("/", {**ping, "full_return": True}, token),
        "yaml": send("/", [ping], token, Accept="application/x-yaml"),
        "yaml in": send("/", f"client: local\ntgt: {MINION}\nfun: test.ping\n", token, Content_Type="application/x-yaml"),
        "form": send("/run", form),
        "batch": send("/", {**ping, "client": "local_batch", "batch": "1"}, token),
        "batch, echo": send("/", {**ping, "client": "local_batch", "fun": "test.echo", "arg": ["x"], "batch": "50%"}, token),
        "batch, failing": send("/", {**ping, "client": "local_batch", "fun": "test.retcode", "arg": [2], "failhard": True}, token),
        "batch of nobody": send("/", {**ping, "client": "local_batch", "tgt": "nobody"}, token),
        "batch of a wrong size": send("/", {**ping, "client": "local_batch", "batch": "many"}, token),
        "batch, not granted": send("/", {**ping, "client": "local_batch", "fun": "cmd.run", "arg": ["id"]}, token),
        "subset": send("/", {**ping, "client": "local_subset", "subset": 1}, token),
        "subset without the function": send("/", {**ping, "client": "local_subset", "fun": "test.nosuch"}, token),
        "subset of nobody": send("/", {**ping, "client": "local_subset", "tgt": "nobody"}, token),
        "key pair": key_pair(mid="made"),
        "page": send("/", Accept="text/html"),
        "page for any path": send("/nosuch/path", Accept="text/html,*/*;q=0.1"),
        "page, by its path": send("/app/x"),
        "file": send("/static/a.css", Accept="text/css,*/*;q=0.1"),
        "file that is missing": send("/static/salt-motd.txt", Accept="text/plain"),
        "file above": send("/static/../index.html", Accept="*/*"),
        "file above, encoded": send("/static/%2e%2e/index.html", Accept="*/*"),
        "icon": send("/favicon.ico", Accept="*/*"),
        "text that is JSON": send("/", json.dumps(ping), token, Content_Type="text/plain;charset=UTF-8"),
        "not granted": send("/", {**ping, "fun": "cmd.run", "arg": ["id"]}, token),
        "runner": send("/", {"client": "runner", "fun": "test.arg", "arg": ["a"], "kwarg": {"b": 1}, "c": 2}, token),
        "runner, whole event": send("/", {"client": "runner", "fun": "manage.up", "full_return": True}, token),
        "runner, not granted": send("/", {"client": "runner", "fun": "cache.grains"}, token),
        "runner_async": send("/", {"client": "runner_async", "fun": "manage.up"}, token),
        "wheel": send("/", {"client": "wheel", "fun": "key.list_all"}, token),
        "wheel, not granted": send("/", {"client": "wheel", "fun": "key.accept", "match": "x"}, token),
        "keys": send("/keys", token=token),
        "key": send(f"/keys/{MINION}", token=token),
        "minions": send("/minions", [{**ping}], token),
        "unknown client": send("/", {"client": "nosuch", "fun": "test.ping"}, token),
        "second fails": send("/", [ping, {"client": "nosuch"}], token),
        "no session": send("/", [ping]),
        "no credentials": send("/run", [ping]),
        "bad token": send("/run", [{**ping, "token": "deadbeef"}]),
        "token without hex": send("/run", [{**ping, "token": "hello"}]),
        "bad JSON": send("/", "{nope", token, Content_Type="application/json"),
        "unknown type": send("/", "<a/>", token, Content_Type="application/xml"),
        "unknown path": send("/nosuch"),
        "wrong method": send("/", method="PUT", data="[]", token=token, Content_Type="application/json"),
        "hook": send("/hook/a/b?x=1", {"k": "v"}, token),
        "hook without login": send("/hook/a", {"k": "v"}),
        "logout": send("/logout", "", token, method="POST"),
        "after logout": send("/", [ping], token),
    }


print(json.dumps({"pepper": json.loads(stable(json.dumps(with_pepper()))), "requests": with_requests()}))

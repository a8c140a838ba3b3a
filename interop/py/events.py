"""Listens on the master's event bus with get_event, commands a minion meanwhile, fires an event, and prints what was seen.

Arguments: the master's configuration file, a minion id. Prints a JSON list of [tag, sorted names of the data].
"""

import json
import re
import sys
import time

import salt.client
import salt.config
import salt.utils.event

conf, minion = sys.argv[1:3]
opts = salt.config.client_config(conf)
with salt.utils.event.get_event("master", sock_dir=opts["sock_dir"], opts=opts, listen=True) as bus:
    assert bus.connect_pub(timeout=10), "no connection to the event bus"
    client = salt.client.LocalClient(conf)
    client.cmd(minion, "test.ping", timeout=20)
    client.cmd(minion, "event.send", ["interop/from-minion", {"a": [1, b"bytes"]}], timeout=20)
    assert bus.fire_event({"b": "own"}, "interop/own"), "the event was not fired"
    assert bus.fire_event({"b": "last"}, "interop/last"), "the event was not fired"
    seen, limit = [], time.time() + 20
    while time.time() < limit:
        event = bus.get_event(wait=1, full=True, auto_reconnect=False)
        if not event:
            continue
        # Sign-ins and the master's own housekeeping come when they come.
        if event["tag"].startswith(("salt/job/", "interop/")) or re.fullmatch(r"\d{20}", event["tag"]):
            seen.append([re.sub(r"\d{20}", "JID", event["tag"]), sorted(event["data"])])
        if event["tag"] == "interop/last":
            break
# An event and a return travel on roads of their own, so either may come first.
print(json.dumps(sorted(seen)))

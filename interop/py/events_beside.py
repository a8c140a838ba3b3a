"""Runs a program and prints, as one JSON map, what it answered and the tags of what happened on a bus meanwhile.

Arguments: "minion" or "master" and the configuration file of that daemon, how the tags begin that count (empty for all), the
last tag that is waited for (a regular expression), the program and its arguments.
"""

import json
import re
import subprocess
import sys

import salt.config
import salt.utils.event

# What each kind of minion tells itself, which is no part of Salt's contract, and what comes when it comes.
OWN = ("saltern/", "salt/auth/", "__beacons_return", "__schedule_return", "interop/end")

kind, conf, counted, wanted, *program = sys.argv[1:]
read = salt.config.minion_config if kind == "minion" else salt.config.client_config
opts = read(conf)
seen = []
with salt.utils.event.get_event(kind, sock_dir=opts["sock_dir"], opts=opts, listen=True) as bus:
    assert bus.connect_pub(timeout=10), "no connection to the event bus"
    done = subprocess.run(program, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    # The mark comes after all that the program fired, and the wanted tag after all that the daemon did about it.
    assert bus.fire_event({}, "interop/end"), "the event was not fired"
    marks = {"interop/end", wanted}
    while marks:
        event = bus.get_event(wait=60, full=True, auto_reconnect=False)
        if event is None:
            seen.append(f"no {sorted(marks)} in a minute")
            break
        tag = event["tag"]
        marks = {mark for mark in marks if not re.fullmatch(mark, tag)}
        if tag.startswith(counted) and not tag.startswith(OWN):
            seen.append(tag)
print(json.dumps({"events": seen, "code": done.returncode, "answer": done.stdout.decode()}))

"""Connects to the master's event bus again and again, each time fires an event at once, and prints which were not seen.

Arguments: the master's configuration file, how many times. Every other client names the tags it wants. Prints a JSON list.
"""

import json
import sys

import salt.config
import salt.utils.event

conf, times = sys.argv[1], int(sys.argv[2])
opts = salt.config.client_config(conf)
lost = []
for number in range(times):
    tag = f"interop/early/{number}"
    with salt.utils.event.get_master_event(opts, opts["sock_dir"], listen=True) as bus:
        if number % 2:
            bus.subscribe("interop/early/")
        assert bus.fire_event({"number": number}, tag), "the event was not fired"
        event = bus.get_event(wait=5, tag=tag, full=True, auto_reconnect=False)
        if not event or event["data"]["number"] != number:
            lost.append(number)
print(json.dumps(lost))

"""Measures LocalClient in its own process: from publishing `test.ping` to the first return.

Arguments: the master's configuration file, a minion id, how often. Prints a JSON list of seconds.
"""

import json
import sys
import time

import salt.client

client = salt.client.LocalClient(sys.argv[1])
took = []
for _ in range(int(sys.argv[3])):
    begin = time.perf_counter()
    job = client.run_job(sys.argv[2], "test.ping", listen=True)
    first = next(part for part in client.get_iter_returns(job["jid"], job["minions"], timeout=20) if part)
    took.append(time.perf_counter() - begin)
    assert first[sys.argv[2]]["ret"] is True, first
print(json.dumps(took))

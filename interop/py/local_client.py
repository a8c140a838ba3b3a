"""Uses every way LocalClient has to command minions, and prints what came back as one JSON map.

Arguments: the master's configuration file, a minion id.
"""

import json
import sys
import time

import salt.client

conf, minion = sys.argv[1:3]
client = salt.client.LocalClient(conf)
seen = {}
seen["cmd"] = client.cmd(minion, "test.arg", [1, "two", [3]], kwarg={"four": {"five": None}}, timeout=20)
seen["cmd list"] = client.cmd([minion, "nobody"], "test.ping", tgt_type="list", timeout=2)
seen["cmd full_return"] = {
    key: value for key, value in client.cmd(minion, "cmd.retcode", ["exit 3"], full_return=True, timeout=20)[minion].items()
    if key != "jid"
}
seen["cmd compound"] = client.cmd(f"L@{minion} and not nobody", "test.echo", ["grüße"], tgt_type="compound", timeout=20)
seen["cmd several"] = client.cmd(minion, ["test.ping", "test.echo"], [[], ["hello"]], timeout=20)
seen["cmd_iter"] = [sorted(part[minion]) for part in client.cmd_iter(minion, "test.ping", timeout=20)]
seen["cmd_iter ret"] = [part[minion]["ret"] for part in client.cmd_iter(minion, "test.ping", timeout=20)]
seen["cmd_cli"] = [part[minion]["ret"] for part in client.cmd_cli(minion, "test.echo", ["x"], timeout=20)]
seen["cmd_batch"] = [part for part in client.cmd_batch(minion, "test.ping", batch="1")]
seen["cmd_subset"] = client.cmd_subset(minion, "test.ping", subset=1)
jid = client.cmd_async(minion, "test.echo", ["later"])
seen["cmd_async jid"] = len(jid)
# Who listens only after publishing may be late for the return, so this job has its listener first.
job = client.run_job(minion, "test.echo", ["later"], listen=True)
jid = job["jid"]
seen["get_cli_returns"] = [part[minion]["ret"] for part in client.get_cli_returns(jid, {minion}, timeout=20)]
# The event may be there before the file.
for _ in range(100):
    cached = client.get_cache_returns(jid)
    if minion in cached:
        break
    time.sleep(0.05)
seen["get_cache_returns"] = cached[minion]["ret"]
seen["get_full_returns"] = client.get_full_returns(jid, {minion}, timeout=20)[minion]["ret"]
job = client.run_job(minion, "test.ping", listen=True)
seen["run_job"] = job["minions"]
seen["get_iter_returns"] = [p[minion]["ret"] for p in client.get_iter_returns(job["jid"], job["minions"], timeout=20) if p]
seen["nothing matches"] = client.run_job("nobody*", "test.ping")
seen["unknown function"] = client.cmd(minion, "no.such", timeout=20)
print(json.dumps(seen, sort_keys=True, default=repr))

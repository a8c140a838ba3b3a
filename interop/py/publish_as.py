"""Publishes as local users of a master, with their key files, and prints the answers as one JSON list.

Arguments: the master's configuration file. Standard input: a JSON list of [user, owner of the key file, target, function,
arguments]. `LocalClient` always takes the user it runs as, so requests are built here.
"""

import json
import pathlib
import sys

import salt.channel.client
import salt.config

opts = salt.config.client_config(sys.argv[1])
uri = "tcp://{interface}:{ret_port}".format(**opts)


def publish(user, owner, tgt, fun, arg):
    path = pathlib.Path(opts["cachedir"], f".{owner}_key")
    load = {
        "cmd": "publish", "tgt": tgt, "fun": fun, "arg": arg, "tgt_type": "glob", "ret": "", "jid": "", "kwargs": {},
        "user": user, "key": path.read_text().strip() if path.exists() else "no key",
    }
    with salt.channel.client.ReqChannel.factory(opts, crypt="clear", master_uri=uri) as channel:
        answer = channel.send(load, timeout=10)
    answer = answer.get("load", answer)
    return answer.get("error") or answer["minions"]


print(json.dumps([publish(*row) for row in json.load(sys.stdin)]))

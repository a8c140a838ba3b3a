"""Prints every stored return of a minion as a JSON map from jid to return; fails on a file that cannot be read.

Arguments: the master's configuration file, a minion id.
"""

import json
import pathlib
import sys

import msgpack
import salt.config

found = {}
for path in pathlib.Path(salt.config.master_config(sys.argv[1])["cachedir"], "jobs").glob(f"*/*/{sys.argv[2]}/return.p"):
    found[(path.parent.parent / "jid").read_text()] = msgpack.unpackb(path.read_bytes())["return"]
print(json.dumps(found))

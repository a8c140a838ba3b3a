"""Asks a master to let applicants in, each with a new key, and prints the answers as one JSON list.

Arguments: the master's configuration file. Standard input: a JSON list of ids; an id that comes again has another key.
"""

import json
import os
import sys

import salt.config
import stranger

master = stranger.Master(salt.config.master_config(sys.argv[1]))
answers = [stranger.Stranger(master, applicant).sign_in() for applicant in json.load(sys.stdin)]
# What a master sends besides the verdict differs from release to release.
print(json.dumps([answer.get("ret", "let in") if isinstance(answer, dict) else str(answer) for answer in answers]))
sys.stdout.flush()
os._exit(0)

"""Writes effective.jsonl: the options the real Salt arrives at from sets of options.

Run with the Python of a Salt installation, in this directory. The first row of each role is complete, the others
hold what differs from it.
"""

import copy
import json
import logging

import salt.config

logging.disable(logging.CRITICAL)

CASES = [
    {},
    {"root_dir": "/opt/x"},
    {"root_dir": "/opt/x/", "pki_dir": "/opt/x/keys", "cachedir": "cache", "pidfile": "/run/x.pid"},
    {"root_dir": "/opt/x", "log_file": "udp://loghost:514", "key_logfile": "file:///dev/log"},
    {"log_dir": "/logs"},
    {"log_dir": "/logs", "log_file": "a.log"},
    {"log_dir": "/logs", "log_file": "/b/a.log", "root_dir": "/r"},
    {"cachedir": "/c"},
    {"cachedir": "/c", "sock_dir": "/s", "extension_modules": "/e"},
    {"append_domain": "example.com"},
    {"append_domain": "m"},
    {"environment": "dev"},
    {"environment": "dev", "saltenv": "prod"},
    {"fileserver_backend": ["git", "roots", "minion"]},
    {"open_mode": "yes", "auto_accept": 1},
    {"open_mode": True, "auto_accept": True},
    {"file_roots": {"base": ["/a"], "1": ["/b"], "dev": None}},
    {"pillar_roots": {"base": None}},
    {"file_ignore_regex": "a.*", "file_ignore_glob": "*.pyc"},
    {"file_ignore_regex": ["(", "b"], "file_ignore_glob": ["x", "y"]},
    {"hash_type": "SHA512"},
    {"ssl": True},
    {"ssl": False},
    {"discovery": True},
    {"discovery": {"port": 1, "mapping": {"a": "b"}}},
    {"ipc_write_buffer": 5},
    {"worker_threads": 2},
    {"worker_threads": 2, "peer": {".*": [".*"]}},
    {"cluster_id": "c", "cluster_peers": ["a"]},
    {"cluster_id": "c", "cluster_peers": ["a"], "cluster_pki_dir": "/p"},
    {"cluster_peers": ["a"], "cluster_pki_dir": "/p"},
    {"external_auth": {"rest": {}}},
    {"autosign_file": "/etc/salt/auto", "autoreject_file": "rej", "autosign_grains_dir": "/g", "root_dir": "/opt/x"},
    {"unknown": {"a": [1]}, "mysql.host": "x"},
    {"utils_dirs": ["/u"]},
    {"append_minionid_config_dirs": ["pki_dir", "cachedir", "pidfile", "default_include", "extension_modules"]},
    {"master": ["a", "b:1"], "master_type": "failover"},
    {"syndic_master": "x", "order_masters": True},
]


def plain(value):
    if hasattr(value, "items"):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) or type(value).__name__ == "ImmutableList":
        return [plain(item) for item in value]
    return value


def effective(role, options):
    options = copy.deepcopy(options) | {"id": "m"}
    make = salt.config.apply_master_config if role == "master" else salt.config.apply_minion_config
    result = plain(make(options))
    return {key: repr(value) for key, value in result.items() if key not in ("__cli", "ssh_config_file", "user")}


with open("effective.jsonl", "w", encoding="utf-8") as out:
    for role in ("master", "minion"):
        base = effective(role, {})
        for options in CASES:
            result = effective(role, options)
            if options:
                result = {key: value for key, value in result.items() if base.get(key) != value}
            out.write(json.dumps({"role": role, "options": repr(options), "result": result}) + "\n")

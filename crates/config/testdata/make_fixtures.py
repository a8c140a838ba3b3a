"""Writes effective.jsonl and files.jsonl: the options the real Salt arrives at from sets of options, and of files.

Run with the Python of a Salt installation, in this directory. The first row of each role is complete, the others
hold what differs from it.
"""

import copy
import json
import logging
import os
import tempfile

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

# Files below one directory, which stands in them and in the results as @DIR@.
FILES = [
    {"master": ""},
    {"master": "root_dir: @DIR@\nid: m\n"},
    {"master": "id: 007\nuser: nobody\n"},
    {"master": "id: m\ntimeout: 7\n", "master.d/b.conf": "timeout: 8\n", "master.d/a.conf": "timeout: 9\nret_port: 1\n"},
    {
        "master": "id: m\npeer: {z: [1]}\nnodegroups: {a: x}\n",
        "master.d/1.conf": "peer: {a: [x, y]}\nfile_ignore_glob: [a]\n",
        "master.d/2.conf": "peer: {a: [y, z], b: [q]}\nfile_ignore_glob: [b, a]\nextra: {deep: {x: 1}}\n",
        "master.d/3.conf": "extra: {deep: {y: 2}, list: [1]}\n",
        "master.d/.4.conf": "timeout: 99\n",
        "master.d/5.txt": "timeout: 98\n",
    },
    {"master": "id: m\ninclude: [x/*.y, none]\ntimeout: 1\n", "x/b.y": "timeout: 2\ninclude: c.z\n", "x/c.z": "timeout: 3\nother: 1\n"},
    {"master": "id: m\ndefault_include: other.d/*\n", "other.d/q": "timeout: 3\n", "master.d/a.conf": "timeout: 9\n"},
    {"master": "id: m\nnodegroups:\n  - a: x\n  - b: y\n"},
    {"master": "id: m\nnodegroups:\n"},
    {"master": "id: m\nfile_roots:\n  base: ['@DIR@/r*', /srv/x]\n", "r1/a": "", "r2/a": ""},
    {"master": "id: m\nreturn: [a, b]\n"},
    {"minion": "id: m\nmaster: [a, b]\n", "minion.d/x.conf": "master: c\n"},
    {"minion": "id: m\n", "minion.d/_schedule.conf": "schedule: {a: {b: 1, c: 2}}\n", "minion.d/a.conf": "schedule: {a: {d: 1}, e: {f: 2}}\n"},
    {"minion": "root_dir: @DIR@\n", "etc/salt/minion_id": "cached\nmore\n"},
    {"minion": "root_dir: @DIR@\nappend_domain: x.y\n", "etc/salt/minion_id": "cached"},
    {"minion": "id: m\ngrains: {a: 1}\nbeacons: {load: [{x: 1}]}\nmine_functions: {test.ping: []}\n"},
    {"minion": "id: m\nmaster_port: '4510'\nauth_timeout: 5.0\nrecon_max: '20'\n"},
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


def from_files(files):
    role = "master" if "master" in files else "minion"
    with tempfile.TemporaryDirectory() as directory:
        for name, text in files.items():
            path = os.path.join(directory, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as out:
                out.write(text.replace("@DIR@", directory))
        make = salt.config.master_config if role == "master" else salt.config.minion_config
        result = plain(make(os.path.join(directory, role)))
        skipped = ("__cli", "ssh_config_file", "user") if "user" not in files[role] else ("__cli", "ssh_config_file")
        # A machine's own name.
        if not result["id"].startswith(("m", "007", "cached")):
            result["id"] = ""
        result = {key: repr(value).replace(directory, "@DIR@") for key, value in result.items() if key not in skipped}
    base = effective(role, {})
    return role, {key: value for key, value in result.items() if base.get(key) != value}


with open("files.jsonl", "w", encoding="utf-8") as out:
    for files in FILES:
        role, result = from_files(files)
        out.write(json.dumps({"role": role, "files": files, "result": result}) + "\n")

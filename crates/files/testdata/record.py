"""Records what the real Salt's file server answers for a small tree.

Run with the Python of an installed Salt: `python record.py roots.json`.
"""

import json
import logging
import os
import sys
import tempfile

logging.disable(logging.CRITICAL)

import salt.config
import salt.fileserver

TREE = [
    ["file", "base1/top.sls", "base: {}\n"],
    ["file", "base1/a/one.txt", "one"],
    ["file", "base1/a/b/two.txt", "two two"],
    ["file", "base1/a/q?x.txt", "question"],
    ["file", "base1/a/zero", ""],
    ["dir", "base1/empty"],
    ["dir", "base1/a/hollow"],
    ["file", "base1/.svn/x", "svn"],
    ["file", "base1/skip.pyc", "pyc"],
    ["file", "base1/both.txt", "first"],
    ["file", "base2/both.txt", "second"],
    ["file", "base2/second/only.txt", "only"],
    ["file", "dev/dev.txt", "dev"],
    ["file", "any/stage/s.txt", "stage"],
    ["file", "outside/secret.txt", "secret"],
    ["link", "base1/link_in", "a/one.txt"],
    ["link", "base1/link_dir", "a"],
    ["link", "base1/link_out", "../outside/secret.txt"],
    ["link", "base1/link_out_dir", "../outside"],
    ["link", "base1/a/link_up", "../top.sls"],
    ["link", "base1/broken", "nowhere"],
    ["link", "base1/a/b/abs", "/etc/hostname"],
]

ROOTS = {"base": ["base1", "base2"], "dev": ["dev"], "none": ["missing"], "__env__": ["any/__env__"]}

PATHS = [
    "top.sls", "a/one.txt", "a//one.txt", "./a/one.txt", "a/b/two.txt", "a", "empty", "nothing", "", "/top.sls", "../outside/secret.txt", "a/../top.sls", "a/..", "..", "both.txt", "second/only.txt",
    "link_in", "link_dir/one.txt", "link_out", "link_out_dir/secret.txt", "a/link_up", "broken", "a/q?x.txt", "|a/q?x.txt", "|top.sls", "dev.txt", "dev.txt?saltenv=dev", "top.sls?saltenv=base",
    "both.txt?index=1", "both.txt?index=0", "both.txt?index=7", "both.txt?index=x", "skip.pyc", ".svn/x", "a/zero", "s.txt", "s.txt?saltenv=stage", "top.sls?env=dev", "top.sls?x", "top.sls?saltenv=base?y",
]

SETTINGS = [
    {},
    {"fileserver_followsymlinks": False},
    {"fileserver_ignoresymlinks": True},
    {"fileserver_followsymlinks": False, "fileserver_ignoresymlinks": True},
    {"file_ignore_regex": ["/\\.svn($|/)", "^a/b", "\\.pyc$"], "file_ignore_glob": ["*.pyc", "*/zero"]},
]


def build(root):
    for kind, path, *rest in TREE:
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        if kind == "dir":
            os.makedirs(full)
        elif kind == "link":
            os.symlink(rest[0], full)
        else:
            with open(full, "w") as out:
                out.write(rest[0])


def plain(value, root):
    """Takes out what differs from run to run."""
    if isinstance(value, dict):
        return {k: plain(v, root) for k, v in value.items() if k != "stat"}
    if isinstance(value, (list, tuple)):
        return [plain(v, root) for v in value]
    if isinstance(value, bytes):
        return value.decode()
    return value.replace(root, "ROOT") if isinstance(value, str) else value


rows = []
for settings in SETTINGS:
    root = os.path.realpath(tempfile.mkdtemp())
    build(root)
    with open(root + "/master", "w") as out:
        roots = {env: [os.path.join(root, d) for d in dirs] for env, dirs in ROOTS.items()}
        json.dump({"root_dir": root, "cachedir": root + "/cache", "pki_dir": root + "/pki", "file_roots": roots, "file_buffer_size": 4, **settings}, out)
    opts = salt.config.master_config(root + "/master")
    fs = salt.fileserver.Fileserver(opts)
    asked = []

    def ask(load):
        func = {"_file_find": "_find_file"}.get(load["cmd"], load["cmd"].lstrip("_"))
        asked.append([dict(load), plain(getattr(fs, func)(dict(load)), root)])

    ask({"cmd": "_file_envs"})
    asked[-1][1].sort()
    for path in PATHS:
        for env in ("base", "dev"):
            ask({"cmd": "_file_find", "path": path, "saltenv": env})
        ask({"cmd": "_file_hash", "path": path, "saltenv": "base"})
        ask({"cmd": "_serve_file", "path": path, "saltenv": "base", "loc": 0})
        ask({"cmd": "_serve_file", "path": path, "saltenv": "base", "loc": 4})
    for env in ("base", "dev", "none", "stage", "../outside", "unknown", "__env__"):
        for cmd in ("_file_list", "_dir_list", "_file_list_emptydirs", "_symlink_list"):
            for prefix in ("", "a", "/a/", "a/b"):
                ask({"cmd": cmd, "saltenv": env, "prefix": prefix})
    for load in ({"cmd": "_file_find"}, {"cmd": "_file_hash"}, {"cmd": "_serve_file"}, {"cmd": "_file_list"}, {"cmd": "_symlink_list"}, {"cmd": "_file_find", "path": "s.txt", "saltenv": "stage"}):
        ask(load)
    rows.append([settings, asked])

with open(sys.argv[1], "w") as out:
    json.dump({"tree": TREE, "roots": ROOTS, "rows": rows}, out, indent=None, separators=(",", ":"))

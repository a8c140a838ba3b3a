#!/usr/bin/env python3
"""Records what the file states of a real Salt 3008.5 do, as `file.json` beside this script.

Run with Salt's own Python, as root:

    ~/.cache/saltern/salt/3008.5/bin/python record_file.py

Each case begins in an empty directory, in which `setup` is made. Its `runs` are applied one after the other; what each
returned and the tree afterwards are recorded. In all texts the directory is written as @DIR@.
"""

import base64
import json
import logging
import os
import shutil
import stat
import sys

DIR = "/tmp/saltern-file-states"
HERE = os.path.dirname(os.path.abspath(__file__))


def expand(value):
    if isinstance(value, str):
        return value.replace("@DIR@", DIR)
    if isinstance(value, list):
        return [expand(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"$bytes"}:
            return base64.b64decode(value["$bytes"])
        return {expand(key): expand(item) for key, item in value.items()}
    return value


def hide(value):
    if isinstance(value, str):
        return value.replace(DIR, "@DIR@")
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, (list, tuple)):
        return [hide(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(hide(item) for item in value)
    if isinstance(value, dict):
        return {hide(key): hide(item) for key, item in value.items()}
    return value


def make(entry):
    path = os.path.join(DIR, entry["path"])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if "link" in entry:
        os.symlink(expand(entry["link"]), path)
        return
    if "hard" in entry:
        os.link(os.path.join(DIR, entry["hard"]), path)
        return
    if entry.get("dir"):
        os.makedirs(path, exist_ok=True)
    elif entry.get("fifo"):
        os.mkfifo(path)
    else:
        content = entry.get("bytes")
        content = base64.b64decode(content) if content is not None else expand(entry.get("text", "")).encode()
        with open(path, "wb") as handle:
            handle.write(content)
    os.chmod(path, int(entry.get("mode", "0755" if entry.get("dir") else "0644"), 8))
    if "user" in entry:
        shutil.chown(path, entry["user"], entry.get("group", entry["user"]))
    if "days" in entry:
        import time
        then = time.time() - entry["days"] * 86400
        os.utime(path, (then, then), follow_symlinks=False)
    if "time" in entry:
        os.utime(path, (entry["time"], entry["time"]))


def tree():
    import grp
    import pwd
    found = {}
    for root, dirs, files in os.walk(DIR):
        if root == DIR:
            dirs[:] = [name for name in dirs if name not in ("cache", "srv", "srv-dev", "root")]
        for name in dirs + files:
            path = os.path.join(root, name)
            info = os.lstat(path)
            entry = {"mode": format(stat.S_IMODE(info.st_mode), "04o")}
            owner = f"{pwd.getpwuid(info.st_uid).pw_name}:{grp.getgrgid(info.st_gid).gr_name}"
            if owner != "root:root":
                entry["owner"] = owner
            if stat.S_ISLNK(info.st_mode):
                entry = {"link": hide(os.readlink(path)), **({"owner": owner} if owner != "root:root" else {})}
            elif stat.S_ISDIR(info.st_mode):
                entry["dir"] = True
            elif stat.S_ISFIFO(info.st_mode):
                entry["fifo"] = True
            elif stat.S_ISREG(info.st_mode):
                with open(path, "rb") as handle:
                    content = handle.read()
                try:
                    entry["text"] = hide(content.decode())
                except UnicodeDecodeError:
                    entry["bytes"] = base64.b64encode(content).decode()
            else:
                entry["device"] = f"{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}"
            found[os.path.relpath(path, DIR)] = entry
    return found


class Salt:
    def __init__(self):
        import salt.config
        import salt.loader

        logging.disable(logging.CRITICAL)
        os.umask(0o022)
        self.reset()
        os.makedirs(f"{DIR}/root", exist_ok=True)
        opts = salt.config.minion_config(None)
        opts.update(
            id="minion", user="root", file_client="local", root_dir=DIR, cachedir=f"{DIR}/cache", test=False,
            file_roots={"base": [f"{DIR}/srv"], "dev": [f"{DIR}/srv-dev"]}, hash_type="sha256",
            pillar_roots={"base": [f"{DIR}/pillar"]}, saltenv=None, extension_modules=f"{DIR}/cache/extmods",
            fileserver_list_cache_time=0,
        )
        opts["grains"] = {"kernel": "Linux", "os": "Debian", "os_family": "Debian", "shell": "/bin/sh", "id": "minion",
                          "cpuarch": "x86_64", "roles": ["web"], "deep": {"er": "grain text"}}
        opts["pillar"] = {}
        self.opts = opts
        self.loader = salt.loader

    def reset(self):
        shutil.rmtree(DIR, ignore_errors=True)
        os.makedirs(f"{DIR}/srv")
        os.makedirs(f"{DIR}/cache")

    def load(self):
        """Loaders for real and for test mode; a module keeps the options it was loaded with."""
        self.context = {}
        self.loaders = {}
        for test in (False, True):
            opts = dict(self.opts, test=test)
            utils = self.loader.utils(opts, context=self.context)
            funcs = self.loader.minion_mods(opts, context=self.context, utils=utils)
            serializers = self.loader.serializers(opts)
            self.loaders[test] = self.loader.states(opts, funcs, utils, serializers, context=self.context)

    def case(self, case):
        self.reset()
        for entry in case.get("setup", []):
            make(entry)
        pillar = expand(case.get("pillar", {}))
        if pillar != self.opts["pillar"] or not hasattr(self, "loaders"):
            self.opts["pillar"] = pillar
            self.load()
        self.context.clear()
        return [self.run(run) for run in case["runs"]]

    def run(self, run):
        fun = run["fun"]
        kwargs = expand(run["args"])
        low = {"state": fun.split(".")[0], "fun": fun.split(".")[1], "__id__": run.get("id", "id"), "__sls__": "sls",
               "__env__": "base", "order": 1, **kwargs, **expand(run.get("low", {}))}
        chunks = expand(run.get("chunks", [])) + [low]
        states = self.loaders[bool(run.get("test"))]
        states.inject_globals = {
            "__low__": low, "__lowstate__": chunks, "__env__": "base", "__instance_id__": "instance", "__running__": {},
        }
        try:
            ret = states[fun](**kwargs)
            if not isinstance(ret, dict):
                ret = {"value": ret}
            answer = {"ret": hide(ret)}
        except Exception as error:  # pylint: disable=broad-except
            answer = {"raised": f"{type(error).__name__}: {hide(str(error))}"}
        answer["tree"] = tree()
        return answer


def main():
    sys.path.insert(0, HERE)
    import file_cases

    only = sys.argv[1:]
    salt = Salt()
    names = set()
    recorded = []
    for case in file_cases.CASES:
        assert case["name"] not in names, case["name"]
        names.add(case["name"])
        if only and not any(case["name"].startswith(word) for word in only):
            continue
        outcomes = salt.case(case)
        recorded.append({**case, "outcomes": outcomes})
    shutil.rmtree(DIR, ignore_errors=True)
    if only:
        print(json.dumps(recorded, indent=1, default=str))
        return
    with open(os.path.join(HERE, "file.json"), "w", encoding="utf-8") as handle:
        json.dump(recorded, handle, indent=0, ensure_ascii=False)
        handle.write("\n")
    print(len(recorded), "cases")


main()

"""Records what the real Salt's gitfs answers for small repositories under many options.

Run with the Python of an installed Salt that has GitPython: `python record_gitfs.py gitfs.json`.
"""

import copy
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile

logging.disable(logging.CRITICAL)

import salt.config
import salt.fileserver
import salt.utils.gitfs

PERSON = "T <t@example.org>"


class Stream:
    """Text for `git fast-import`; the same text makes the same commits everywhere."""

    def __init__(self):
        self.text = ""
        self.time = 1700000000

    def commit(self, branch, files, start=None):
        self.time += 60
        self.text += f"commit refs/heads/{branch}\ncommitter {PERSON} {self.time} +0000\ndata 2\nm\n\n"
        if start:
            self.text += f"from refs/heads/{start}\n"
        for path, (mode, content) in files.items():
            if mode == "160000":
                self.text += f"M 160000 {content} {path}\n"
            elif mode is None:
                self.text += f"D {path}\n"
            else:
                self.text += f"M {mode} inline {path}\ndata {len(content.encode())}\n{content}\n"
        self.text += "\n"

    def tag(self, name, branch, heavy):
        if heavy:
            self.text += f"tag {name}\nfrom refs/heads/{branch}\ntagger {PERSON} {self.time} +0000\ndata 2\nt\n\n"
        else:
            self.text += f"reset refs/tags/{name}\nfrom refs/heads/{branch}\n\n"


def f(content):
    return ("100644", content)


def x(content):
    return ("100755", content)


def l(target):
    return ("120000", target)


def streams():
    one = Stream()
    one.commit(
        "master",
        {
            "top.sls": f("base: {}\n"),
            "a/one.txt": f("one"),
            "a/b/two.txt": f("two two two"),
            "a/run.sh": x("#!/bin/sh\n"),
            "a/zero": f(""),
            "a/link": l("one.txt"),
            "a/b/up": l("../one.txt"),
            "a/chain": l("b/up"),
            "absolute": l("/a/one.txt"),
            "dangling": l("nowhere"),
            "out": l("../../etc/passwd"),
            "todir": l("a/b"),
            "loop1": l("loop2"),
            "loop2": l("loop1"),
            "srv/salt/init.sls": f("x: y\n"),
            "srv/salt/deep/er/file": f("deep"),
            "srv/salt/out": l("../../a/one.txt"),
            "srv/other/file": f("other"),
            "mod": ("160000", "1" * 40),
            "with space.txt": f("space"),
            "ünï.txt": f("unicode"),
            ".gitignore": f("*.swp\n"),
            "big": f("0123456789" * 3),
        },
    )
    one.tag("v1", "master", False)
    one.commit("dev", {"a/one.txt": f("dev one"), "dev.txt": f("dev")}, start="master")
    one.commit("feature/x", {"feature": f("x"), "top.sls": (None, "")}, start="master")
    one.commit("beef", {"meat": f("raw")})
    one.commit("main", {"main.txt": f("main"), "a/one.txt": f("main one")})
    one.commit("master", {"a/one.txt": f("one, changed"), "new.txt": f("new")})
    one.tag("v2", "master", True)
    two = Stream()
    two.commit("master", {"a/one.txt": f("second one"), "two.txt": f("two"), "a/link": l("../two.txt")})
    two.commit("dev", {"dev.txt": f("second dev"), "only": f("here")})
    two.commit("prod", {"prod.txt": f("prod")})
    return {"one": one.text, "two": two.text}


ONE, TWO = "file://ROOT/one", "file://ROOT/two"


def of(url, **options):
    return {url: [{key: value} for key, value in options.items()]}


CASES = []


def case(*remotes, **options):
    CASES.append({"gitfs_remotes": list(remotes), **options})


SALTENV = [
    {"stage": [{"ref": "dev"}, {"mountpoint": "salt://mnt"}]},
    {"sub": [{"ref": "master"}, {"root": "srv/salt"}]},
]
case(ONE)
case(TWO)
case(ONE, TWO)
case(TWO, ONE)
case("/ROOT/one", TWO)
for base in ("main", "dev", "v1", "none", "feature/x", "beef", "SHA"):
    case(ONE, gitfs_base=base)
    case(of(ONE, base=base), TWO)
for root in ("srv", "srv/salt", "srv/salt/", "/srv", "none", "a/one.txt", "./srv"):
    case(ONE, gitfs_root=root)
case(of(ONE, root="a"), of(TWO, root="a"))
for mountpoint in ("salt://m", "m/n", "/m/n/", "salt://m/"):
    case(ONE, gitfs_mountpoint=mountpoint)
case(of(ONE, mountpoint="salt://m", root="a"), TWO)
case(of(ONE, mountpoint="salt://m", root="srv/salt"), of(TWO, mountpoint="m"))
for types in (["branch"], ["tag"], ["sha"], ["tag", "branch"], ["branch", "sha"], ["Branch", "TAG"]):
    case(ONE, gitfs_ref_types=types)
case(of(ONE, ref_types=["tag"]), TWO)
case(of(ONE, ref_types="tag, branch"), TWO)
for listed in (["dev"], ["d*", "base"], [r"v\d"], ["none"]):
    case(ONE, gitfs_saltenv_whitelist=listed)
    case(ONE, gitfs_saltenv_blacklist=listed)
case(ONE, gitfs_saltenv_whitelist=["dev", "base"], gitfs_saltenv_blacklist=["dev"])
case(of(ONE, saltenv_whitelist=["dev"]), of(TWO, saltenv_blacklist="dev,prod"))
case(ONE, gitfs_disable_saltenv_mapping=True)
case(ONE, gitfs_disable_saltenv_mapping=True, gitfs_saltenv=SALTENV)
case(of(ONE, disable_saltenv_mapping=True), TWO)
case(ONE, gitfs_saltenv=SALTENV)
case(ONE, TWO, gitfs_saltenv=SALTENV)
case(of(ONE, saltenv=SALTENV), TWO)
case(of(ONE, saltenv=[{"base": [{"ref": "dev"}]}, {"qa": [{"ref": "main"}, {"root": "a"}]}]), TWO)
case(of(ONE, saltenv=[{"base": [{"ref": "main"}]}], base="dev"))
case(of(ONE, saltenv=[{"stage": [{"ref": "none"}]}, {"two": [{"ref": "dev"}]}, {"three": [{"ref": "dev"}]}]))
case(of(ONE, saltenv=[{"stage": [{"mountpoint": "salt://s/"}]}]), gitfs_saltenv=[{"stage": [{"ref": "v2"}, {"root": "srv"}]}])
case(of(ONE, saltenv=[{"dev": [{"ref": "main"}]}]), gitfs_saltenv=[{"dev": [{"ref": "v1"}]}])
case(of(ONE, saltenv=[{"base": [{"root": "a"}, {"mountpoint": "salt://mm"}]}]))
case(of(ONE, all_saltenvs="master"), TWO)
case(of(ONE, all_saltenvs="v1"))
case(of(ONE, all_saltenvs="none"), TWO)
case(of(ONE, all_saltenvs="main", saltenv=[{"dev": [{"ref": "v1"}]}]))
for fallback in ("main", "v1", "none"):
    case(ONE, gitfs_fallback=fallback)
case(of(ONE, fallback="main"), TWO)
case(of(ONE, fallback="main", disable_saltenv_mapping=True), TWO)
case(ONE, gitfs_fallback="main", gitfs_saltenv_blacklist=["dev"])
case(of(ONE, name="named"), of(TWO, name="other"))
case(ONE, gitfs_refspecs=["+refs/heads/d*:refs/remotes/origin/d*"])
case(of(ONE, refspecs=["+refs/heads/master:refs/remotes/origin/renamed", "+refs/tags/*:refs/tags/*"]))
case(of(ONE, refspecs=["+refs/heads/*:refs/remotes/other/*"]))
case(ONE, hash_type="md5")
case(ONE, file_ignore_glob=["*.txt"])
case(ONE, fileserver_backend=["roots", "gitfs"])
case(ONE, fileserver_backend=["gitfs", "roots"])
case(ONE, TWO, fileserver_backend=["git", "roots"])
case(of(ONE, mountpoint="m"), of(TWO, root="none"), gitfs_fallback="prod", gitfs_base="dev")

ENVS = ["base", "dev", "feature/x", "beef", "v1", "v2", "main", "master", "stage", "sub", "qa", "prod", "none", "SHA", "SHORT", "dead"]
PATHS = [
    "top.sls", "a/one.txt", "a/b/two.txt", "a/run.sh", "a/zero", "a/link", "a/b/up", "a/chain", "absolute", "dangling",
    "out", "todir", "todir/two.txt", "loop1", "mod", "a", "one.txt", "m/one.txt", "m/a/one.txt", "m/n/a/one.txt", "mnt/dev.txt",
    "s/salt/init.sls", "init.sls", "salt/init.sls", "deep/er/file", "two.txt", "m/two.txt", "dev.txt", "main.txt", "meat",
    "ünï.txt", "with space.txt", "only", "roots.txt", "big", "mm/one.txt", "a//one.txt", "m", "a/one.txt?saltenv=dev",
]


def plain(value):
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items() if key != "path"}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def ask(server, load):
    cmd = load["cmd"].lstrip("_")
    try:
        return plain(getattr(server, cmd)(copy.deepcopy(load)))
    except Exception as error:
        if "-v" in sys.argv:
            import traceback; traceback.print_exc(limit=-3)
        return {"raised": type(error).__name__}


def questions(number):
    yield {"cmd": "_file_envs"}
    for env in ENVS:
        for cmd in ("_file_list", "_dir_list", "_symlink_list", "_file_list_emptydirs"):
            yield {"cmd": cmd, "saltenv": env}
    yield {"cmd": "_file_list", "saltenv": "base", "prefix": "a"}
    yield {"cmd": "_dir_list", "saltenv": "base", "prefix": "a/"}
    yield {"cmd": "_symlink_list", "saltenv": "base", "prefix": "a"}
    for place, path in enumerate(PATHS):
        # Each case asks a part; together they ask all of them in each environment many times.
        for offset, env in enumerate(ENVS):
            if env != "base" and (number + place + offset) % 5:
                continue
            yield {"cmd": "_file_find", "path": path, "saltenv": env}
            if env in ("base", "dev", "stage", "sub"):
                yield {"cmd": "_file_hash", "path": path, "saltenv": env}
                yield {"cmd": "_serve_file", "path": path, "saltenv": env, "loc": 0}
    yield {"cmd": "_file_hash_and_stat", "path": "a/run.sh", "saltenv": "base"}
    yield {"cmd": "_serve_file", "path": "big", "saltenv": "base", "loc": 16}
    yield {"cmd": "_serve_file", "path": "big", "saltenv": "base", "loc": 30}


def main():
    all_streams = streams()
    rows = []
    with tempfile.TemporaryDirectory() as root:
        root = os.path.realpath(root)
        for name, text in all_streams.items():
            path = os.path.join(root, name)
            subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=master", path], check=True)
            subprocess.run(["git", "fast-import", "--quiet"], cwd=path, input=text.encode(), check=True)
        sha = subprocess.run(
            ["git", "rev-parse", "dev"], cwd=os.path.join(root, "one"), capture_output=True, check=True, text=True
        ).stdout.strip()
        os.makedirs(os.path.join(root, "srv"))
        for name in ("roots.txt", "top.sls"):
            with open(os.path.join(root, "srv", name), "w") as out:
                out.write("from roots")

        def here(text):
            return text.replace("ROOT", root.lstrip("/") if "///" in text else root).replace("SHA", sha).replace("SHORT", sha[:10])

        def there(value):
            return json.loads(json.dumps(value).replace(sha, "SHA"))

        for number, options in enumerate(CASES[:1] if "-v" in sys.argv else CASES):
            text = json.dumps(options).replace("file://ROOT", "file://" + root).replace("/ROOT/", root + "/").replace('"SHA"', f'"{sha}"')
            cachedir = os.path.join(root, "cache")
            shutil.rmtree(cachedir, ignore_errors=True)
            os.makedirs(cachedir)
            opts = salt.config.master_config(None)
            opts.update({
                "cachedir": cachedir, "sock_dir": root, "gitfs_provider": "gitpython", "fileserver_backend": ["gitfs"],
                "file_roots": {"base": [os.path.join(root, "srv")]}, "file_buffer_size": 16, "fileserver_list_cache_time": 0,
                "hash_type": "sha256", "fileserver_events": False,
            })
            opts.update(json.loads(text))
            opts["fileserver_backend"] = ["gitfs" if name == "git" else name for name in opts["fileserver_backend"]]
            salt.utils.gitfs.GitFS.instance_map.clear()
            for cls in (salt.utils.gitfs.GitPython,):
                for name in ("mountpoint", "root", "ref"):
                    if name in cls.__dict__:
                        delattr(cls, name)
            server = salt.fileserver.Fileserver(opts)
            server.update()
            answers = []
            for load in questions(number):
                asked = json.loads(json.dumps(load).replace('"SHA"', f'"{sha}"').replace('"SHORT"', f'"{sha[:10]}"'))
                answer = ask(server, asked)
                answers.append([load, there(answer)])
            rows.append([options, answers])
            print(number, "of", len(CASES), file=sys.stderr)
    # The same question has the same answer in many cases: each answer is written once.
    known, compact = {}, []
    for options, answers in rows:
        row = []
        for load, answer in answers:
            text = json.dumps([load, answer], ensure_ascii=False)
            row.append(known.setdefault(text, len(known)))
        compact.append([options, row])
    with open(sys.argv[1], "w") as out:
        out.write('{"streams": ' + json.dumps(all_streams, ensure_ascii=False) + ',\n"answers": [\n')
        out.write(",\n".join(known) + '\n],\n"cases": [\n')
        out.write(",\n".join(json.dumps(row, ensure_ascii=False) for row in compact) + "\n]}\n")


main()

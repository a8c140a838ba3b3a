"""Records the pillar the real Salt makes of small repositories.

Run with the Python of an installed Salt that has GitPython: `python record_git.py git.json`.
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
import salt.pillar
import salt.pillar.git_pillar
import salt.utils.gitfs

GRAINS = {"os": "Debian", "id": "web1"}


def top(env, *names, target="*"):
    return f"{env}:\n  '{target}':\n" + "".join(f"    - {name}\n" for name in names)


# Branches of two repositories, each with its files.
BRANCHES = {
    "one": {
        "master": {
            "top.sls": top("base", "common", "shared"),
            "common.sls": "common: one master\nlist: [1, 2]\ndeep:\n  a: 1\n",
            "shared.sls": "shared: one\n",
            "sub/top.sls": top("base", "inner"),
            "sub/inner.sls": "inner: one sub\n",
            "env.sls": "env: '{{ saltenv }}'\n",
        },
        "dev": {"top.sls": top("dev", "common"), "common.sls": "common: one dev\nonly_dev: 1\n"},
        "both": {"top.sls": top("base", "common") + top("both", "other"), "common.sls": "common: both\n", "other.sls": "other: both\n"},
        "broken": {"top.sls": top("base", "bad", "gone"), "bad.sls": "a: b: c\n"},
    },
    "two": {
        "master": {
            "top.sls": top("base", "second", "shared"),
            "second.sls": "second: two\nlist: [2, 3]\ndeep:\n  b: 2\n",
            "shared.sls": "shared: two\n",
            "nginx/init.sls": "nginx: two\n",
        },
        "dev": {"top.sls": top("dev", "second"), "second.sls": "second: two dev\n"},
        "notop": {"inc.sls": "inc: two\n", "nginx/init.sls": "nginx: notop\n"},
    },
    "three": {
        "master": {
            "top.sls": top("base", "inc", "web.server.nginx"),
        },
    },
}
ONE, TWO, THREE = "file://ROOT/one", "file://ROOT/two", "file://ROOT/three"


def of(branch, url, **options):
    name = f"{branch} {url}"
    return {name: [{key: value} for key, value in options.items()]} if options else name


CASES = []


def case(name, *remotes, options=None, **request):
    CASES.append([name, list(remotes), options or {}, request])


case("one", of("master", ONE))
case("branch", of("dev", ONE))
case("branch asked for", of("dev", ONE), pillarenv="dev")
case("branch not asked for", of("dev", ONE), pillarenv="base")
case("env", of("dev", ONE, env="base"))
case("env other", of("master", ONE, env="prod"))
case("env any", of("master", ONE, env="__env__"))
case("env any asked", of("master", ONE, env="__env__"), pillarenv="dev")
case("two", of("master", ONE), of("master", TWO))
case("two the other way", of("master", TWO), of("master", ONE))
for strategy in ("smart", "recurse", "aggregate", "overwrite", "none"):
    case(f"two {strategy}", of("master", ONE), of("master", TWO), options={"pillar_source_merging_strategy": strategy})
case("two lists", of("master", ONE), of("master", TWO), options={"pillar_merge_lists": True})
case("two branches", of("master", ONE), of("dev", ONE))
case("two branches dev", of("master", ONE), of("dev", ONE), pillarenv="dev")
case("any", of("__env__", ONE))
case("any dev", of("__env__", ONE), pillarenv="dev")
case("any saltenv", of("__env__", ONE), saltenv="dev")
case("any missing", of("__env__", ONE), pillarenv="nope")
case("any base", of("__env__", ONE, base="dev"))
case("any base asked", of("__env__", ONE, base="dev"), pillarenv="base")
case("any fallback", of("__env__", ONE, fallback="master"), pillarenv="nope")
case("any all", of("__env__", ONE, all_saltenvs="dev"), pillarenv="dev")
case("any all base", of("__env__", ONE, all_saltenvs="master"))
case("missing branch", of("nope", ONE), of("master", TWO))
case("root", of("master", ONE, root="sub"))
case("root missing", of("master", ONE, root="none"), of("master", TWO))
case("global root", of("master", ONE), options={"git_pillar_root": "sub"})
case("includes", of("master", THREE), of("notop", TWO, env="base", mountpoint="web/server"))
case("includes inc", of("master", THREE), of("notop", TWO, env="base"))
case("no includes", of("master", THREE), of("notop", TWO, env="base"), options={"git_pillar_includes": False})
case("mountpoint with slashes", of("master", THREE), of("notop", TWO, env="base", mountpoint="/web/server/"))
case("mountpoint other env", of("master", THREE), of("notop", TWO, mountpoint="web/server"))
case("both envs in a top", of("both", ONE))
case("both envs in a top asked", of("both", ONE), pillarenv="both")
case("both as base", of("both", ONE, env="base"))
case("broken", of("broken", ONE, env="base"))
case("broken shown", of("broken", ONE, env="base"), options={"pillar_safe_render_error": False})
case("global base", of("__env__", ONE), options={"git_pillar_base": "dev"})
case("global env", of("master", ONE), options={"git_pillar_env": "prod"})
case("branch of all", ONE, options={"git_pillar_branch": "dev"})
case("with files", of("master", ONE), options={"FILES": True})
case("with files first", of("master", ONE), options={"FILES": True, "ext_pillar_first": True})


def plain(value, root):
    if isinstance(value, dict):
        return {"map": [[plain(k, root), plain(v, root)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return [plain(v, root) for v in value]
    return value.replace(root, "ROOT") if isinstance(value, str) else value


def stream():
    streams = {}
    for repository, branches in BRANCHES.items():
        text = ""
        for branch, files in branches.items():
            text += f"commit refs/heads/{branch}\ncommitter T <t@example.org> 1700000000 +0000\ndata 1\nm\n"
            for path, content in files.items():
                text += f"M 100644 inline {path}\ndata {len(content)}\n{content}\n"
            text += "\n"
        streams[repository] = text
    return streams


def main():
    streams, rows = stream(), []
    with tempfile.TemporaryDirectory() as root:
        root = os.path.realpath(root)
        for name, text in streams.items():
            path = os.path.join(root, name)
            subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=master", path], check=True)
            subprocess.run(["git", "fast-import", "--quiet"], cwd=path, input=text.encode(), check=True)
        os.makedirs(root + "/files")
        for name, content in (("top.sls", top("base", "own")), ("own.sls", "own: 1\ncommon: file\nlist: [9]\n")):
            with open(os.path.join(root, "files", name), "w") as out:
                out.write(content)
        for name, remotes, options, request in CASES:
            cachedir = root + "/cache"
            shutil.rmtree(cachedir, ignore_errors=True)
            os.makedirs(cachedir)
            given = json.loads(json.dumps(remotes).replace("file://ROOT", "file://" + root))
            config = {
                "cachedir": cachedir, "git_pillar_provider": "gitpython", "ext_pillar": [{"git": given}],
                "pillar_roots": {"base": [root + "/files"]} if options.get("FILES") else {"base": []},
                "file_roots": {"base": []},
                **{key: value for key, value in options.items() if key != "FILES"},
            }
            opts = salt.config.master_config(None)
            opts.update(config)
            cls = salt.utils.gitfs.GitPython
            for attribute in ("mountpoint", "root", "ref"):
                if attribute in cls.__dict__:
                    delattr(cls, attribute)
            try:
                pillar = salt.pillar.Pillar(opts, dict(GRAINS), "web1", request.get("saltenv"), pillarenv=request.get("pillarenv"))
                answer = plain(pillar.compile_pillar(), root)
            except Exception as error:
                answer = {"__failed__": f"{type(error).__name__}: {error}"}
            rows.append([name, remotes, options, request, answer])
            print(name, answer, file=sys.stderr)
    with open(sys.argv[1], "w") as out:
        json.dump({"streams": streams, "grains": GRAINS, "cases": rows}, out, separators=(",", ":"))


main()

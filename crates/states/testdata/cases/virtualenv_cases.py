"""Environments of Python."""

import os.path

from record_calls import Each, Raise

CASES = []
DONE = {"retcode": 0, "stdout": "created", "stderr": "", "pid": 7}
WRONG = {"retcode": 2, "stdout": "some words", "stderr": "ERROR: odd", "pid": 7}
real = os.path.exists


def add(there, answers=None, **kwargs):
    more = {
        "virtualenv.create": DONE, "pip.version": "9.0.2", "pip.freeze": ["a==1", "b==2"], "pip.install": DONE,
        "cmd.run_stderr": "Python 2.7.1\n", "cp.is_cached": "/var/cache/r.txt", "cp.cache_file": "/var/cache/new.txt",
        "cp.hash_file": {"hsum": "1", "hash_type": "sha256"},
    }
    for fun, answer in (answers or {}).items():
        if answer is None:
            more.pop(fun)
        else:
            more[fun] = answer

    def patch(module):
        os.path.exists = lambda path: there if str(path).endswith("/bin/python") else real(path)

    for test in (False, True):
        CASES.append({"state": "virtualenv.managed", "module": "virtualenv_mod", "answers": more, "args": ["/srv/env"],
                      "kwargs": kwargs, "test": test, "opts": {"__venv_exists": there}, "patch": patch})


for there in (False, True):
    add(there)
    add(there, clear=True)
    add(there, python="python3.11", venv_bin="venv", system_site_packages=True, prompt="p", user="web", own="own", distribute=True,
        extra_search_dir="/x", never_download=True, use_vt=True)
    add(there, requirements="/srv/r.txt")
    add(there, requirements="salt://r.txt", pip_upgrade=True, no_deps=True, proxy="p", env_vars={"A": "b"}, pre_releases=True)
    add(there, requirements="salt://r.txt", answers={"cp.is_cached": ""})
    add(there, requirements="salt://r.txt", answers={"cp.is_cached": "", "cp.cache_file": False})
    add(there, requirements="salt://r.txt", answers={"cp.hash_file": Each([{"hsum": "1"}, {"hsum": "2"}])})
    add(there, pip_pkgs=["x", "y"], user="web", cwd="/srv", index_url="https://i", extra_index_url="https://e", pip_download="/d",
        pip_download_cache="/c", pip_exists_action="w", pip_ignore_installed=True, pip_no_cache_dir=True, pip_cache_dir="/cc",
        process_dependency_links=True)
    add(there, pip_pkgs=["x"], answers={"pip.freeze": Each([["a==1"], ["a==1", "x==2"]])})
    add(there, pip_pkgs=["x"], answers={"pip.freeze": Each([["a==1"], ["a==2"]])})
    add(there, pip_pkgs=["x"], answers={"pip.install": WRONG})
    add(there, pip_pkgs=["x"], answers={"pip.install": {"retcode": -9, "stdout": "", "stderr": ""}})
    add(there, pip_pkgs=["x"], answers={"pip.freeze": Raise("no pip")})
    add(there, pip_pkgs=["x"], answers={"pip.freeze": Raise("no pip", {"retcode": 1})})
    add(there, use_wheel=True)
    add(there, use_wheel=True, answers={"pip.version": "23.0"})
    add(there, no_use_wheel=True, answers={"pip.version": "1.0"})
    add(there, no_binary=":all:", pip_pkgs=["x"])
    add(there, no_binary=["x"], answers={"pip.version": "6.0"})
    add(there, no_binary=["x"], use_wheel=True, no_use_wheel=True)
add(False, answers={"virtualenv.create": WRONG})
add(False, answers={"virtualenv.create": Raise("virtualenv is missing", kind="notfound")})
add(False, answers={"virtualenv.create": Raise("Cannot find requested python (x).")})
add(False, answers={"virtualenv.create": None})

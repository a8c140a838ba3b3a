"""Python packages."""

import salt.modules.pip

from record_calls import Each, Raise

CASES = []
LISTED = {"django": "4.2.1", "flask": "2.0", "early": "2.0b1", "zope-interface": "5.4.0"}
DONE = {"retcode": 0, "stdout": "Collecting x\nSuccessfully installed x-1.0", "stderr": "", "pid": 7}
SAID = {"retcode": 0, "stdout": "Requirement already satisfied: flask==2.0 in /usr/lib\nRequirement already up-to-date: Zope.Interface in /x", "stderr": "", "pid": 7}
WRONG = {"retcode": 1, "stdout": "Collecting x", "stderr": "ERROR: No matching distribution found for x", "pid": 7}


def add(state, name, answers=None, **kwargs):
    more = {
        "pip.version": "9.0.2", "pip.list": LISTED, "pip.install": DONE, "pip.uninstall": DONE, "pip.upgrade": {},
        "pip.list_all_versions": ["1.0", "4.0", "4.2.1", "5.0"], "pip.list_upgrades": {}, "user.info": {"name": "web"},
        "pip.normalize": salt.modules.pip.normalize,
    }
    for fun, answer in (answers or {}).items():
        fun = fun if "." in fun else "pip." + fun
        if answer is None:
            more.pop(fun)
        else:
            more[fun] = answer
    for test in (False, True):
        CASES.append({"state": state, "module": "pip_state", "answers": more, "args": [name], "kwargs": kwargs, "test": test})


I, R, U = "pip.installed", "pip.removed", "pip.uptodate"
add(I, "django")
add(I, "Django")
add(I, "Zope_Interface")
add(I, "x")
add(I, "django==4.2.1")
add(I, "django==5")
add(I, "django>=4,<5")
add(I, "django>=4,<4.2")
add(I, "django ~= 4.2")
add(I, "django[argon2]>=4.0")
add(I, "early>=1")
add(I, "early<2")
add(I, "x>=1,<2")
add(I, "x=1")
add(I, "git+https://example.org/x.git")
add(I, "git+https://example.org/x.git@main#egg=django")
add(I, "https://example.org/x-1.0.tar.gz")
add(I, "https://example.org/django-4.2.1-py3-none-any.whl")
add(I, "https://example.org/django-4.3-py3-none-any.whl")
add(I, "x @ https://example.org/x.zip")
add(I, "django", upgrade=True)
add(I, "django<5", upgrade=True)
add(I, "django==3.0", upgrade=True)
add(I, "django>=5a1", upgrade=True)
add(I, "django", upgrade=True, answers={"list_all_versions": []})
add(I, "django", upgrade=True, index_url="https://pypi.example/simple", extra_index_url="https://b", user="web", cwd="/srv")
add(I, "django", upgrade=True, answers={"list_all_versions": ["4.2.1"]})
add(I, "x", upgrade=True)
add(I, "django", force_reinstall=True)
add(I, "django", force_reinstall=True, upgrade=True)
add(I, "django", ignore_installed=True)
add(I, "n", pkgs=["django", "flask"])
add(I, "n", pkgs=["django", "flask>=3", "x"])
add(I, "n", pkgs=["django", "flask"], upgrade=True)
add(I, "n", pkgs=["x=1", "django", "y=2"])
add(I, "n", pkgs="django")
add(I, "n", pkgs=[])
add(I, "n", pkgs=["flask>3"], answers={"install": SAID})
add(I, "n", pkgs=["flask>3", "zope.interface>6"], answers={"install": SAID})
add(I, "x", answers={"list": {}})
add(I, "x", answers={"list": Each([{}, {}, {"x": "1.0"}])})
add(I, "x", answers={"list": Each([LISTED, {"x": "1.0"}])})
add(I, "X_y", answers={"list": Each([LISTED, {"x-y": "1.0"}])})
add(I, "x", answers={"list": Each([Raise("no pip"), LISTED, {"x": "1"}])})
add(I, "x", answers={"install": WRONG})
add(I, "x", answers={"install": {"result": False, "comment": "no such file"}})
add(I, "x", answers={"install": {}})
add(I, "n", pkgs=["django", "x"], answers={"install": WRONG})
add(I, "x", answers={"version": Raise("Could not find a `pip` binary", kind="notfound")})
add(I, "x", answers={"version": Raise("broken")})
add(I, "x", use_wheel=True, no_use_wheel=True)
add(I, "x", use_wheel=True, answers={"version": "23.0"})
add(I, "x", no_use_wheel=True, answers={"version": "1.0"})
add(I, "x", no_binary=":all:")
add(I, "x", no_binary=["a", "b"], answers={"version": "6.0"})
add(I, "x", user="web")
add(I, "x", user="nobody-known", answers={"user.info": {}})
add(I, "x", user="web", answers={"user.info": None})
add(I, "x", pip_bin="/srv/env/bin/pip")
add(I, "x", pip_bin="/srv/env/bin/pip", bin_env="/srv/other")
add(I, "x", bin_env="/srv/env", proxy="http://p:3128", timeout=20, log="/tmp/pip.log", env="dev")
add(I, "x", requirements="/srv/r.txt")
add(I, "x", requirements="salt://r.txt", bin_env="/srv/env", answers={"install": SAID})
add(I, "x", requirements="/srv/r.txt", answers={"install": WRONG})
add(I, "x", editable="git+https://example.org/x.git#egg=x")
add(I, "x", editable="git+https://example.org/x.git#egg=x", requirements="/srv/r.txt")
add(I, "x", editable="git+https://example.org/x.git#egg=x", requirements="/srv/r.txt", answers={"install": WRONG})
add(I, "x", editable="file:///srv/x", answers={"install": {"result": False, "comment": "odd"}})
add(I, "x", repo="git+x", cache_dir="/c", download_cache="/d", extra_args=["-q", {"--x": 1}], env_vars={"A": "b"}, global_options=["a"],
    install_options="b", mirrors="http://m", allow_external=["e"], trusted_host="h", no_cache_dir=True, own_option="own")
add(R, "django")
add(R, "Django")
add(R, "x")
add(R, "django", answers={"uninstall": {}})
add(R, "django", bin_env="/srv/env", user="web", cwd="/srv", requirements="/r.txt", log="/l", proxy="p", timeout=3, use_vt=True)
add(R, "django", answers={"list": Raise("no pip", kind="notfound")})
add(R, "django", answers={"list": Raise("broken", {"retcode": 1})})
add(U, "all")
add(U, "all", answers={"list_upgrades": {"x": "2"}})
add(U, "all", answers={"list_upgrades": {"x": "2"}, "upgrade": {"x": {"old": "1", "new": "2"}}}, bin_env="/srv/env", user="web", cwd="/srv", use_vt=True)
add(U, "all", answers={"list_upgrades": {"x": "2"}, "upgrade": {"result": False, "comment": "no network", "changes": {}}})
add(U, "all", answers={"list_upgrades": Raise("no pip")})

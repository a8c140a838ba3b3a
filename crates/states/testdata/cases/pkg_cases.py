"""Packages on a Debian machine and on one with locks, groups and patches."""

from collections import OrderedDict

from record_calls import Each, Raise


def numbers(version):
    return [int(part) if part.isdigit() else 0 for part in version.replace("-", ".").replace(":", ".").split(".")]


def version_cmp(a, b, ignore_epoch=False, **kwargs):
    if ignore_epoch:
        a, b = a.split(":", 1)[-1], b.split(":", 1)[-1]
    if not a or not b:
        return None
    a, b = numbers(a if ":" in a else "0:" + a), numbers(b if ":" in b else "0:" + b)
    return (a > b) - (a < b)


def normalize(name):
    return name[:-6] if name.endswith(":amd64") else name


PRESENT = {"bash": ["5.2-1"], "vim": ["2:9.0-1"], "kernel": ["6.1-1", "6.1-2"], "multi:i386": ["1.0"]}


def listing(before, after=None, removed=None, purge=None):
    """pkg.list_pkgs of a machine before and after it is changed; the change shows after two looks at what is installed."""
    looks = [0]

    def answer(versions_as_list=False, removed_=None, **kwargs):
        if kwargs.get("removed"):
            return dict(removed or {})
        if kwargs.get("purge_desired"):
            return dict(purge or {})
        looks[0] += 1
        return dict(before if looks[0] == 1 or after is None else after)

    return answer


def machine(before=None, after=None, removed=None, purge=None, **more):
    before = PRESENT if before is None else before
    answers = {
        "pkg.list_pkgs": listing(before, after, removed, purge),
        "pkg.version_cmp": version_cmp,
        "pkg.normalize_name": normalize,
        "pkg.latest_version": lambda *names, **kw: ("9.9-1" if len(names) == 1 else {n: "9.9-1" for n in names}) if names else "",
        "pkg.list_repo_pkgs": lambda *names, **kw: {n.split("=")[0]: ["9.9-1", "1.0-1"] for n in names},
        "pkg.install": {},
        "pkg.remove": {},
        "pkg.purge": {},
        "pkg.hold": {},
        "pkg.unhold": {},
        "pkg.version": lambda *names, **kw: "5.2-1" if len(names) == 1 else {n: "5.2-1" for n in names},
        "pkg.list_upgrades": {},
        "pkg.upgrade": {},
        "pkg.get_selections": {"hold": []},
        "lowpkg.bin_pkg_info": None,
        "lowpkg.unpurge": {"gone": {"new": "1", "old": ""}},
        "cp.cache_file": "/etc/hostname",
    }
    for name, answer in more.items():
        name = name.replace("__", ".", 1)
        if answer is None:
            answers.pop(name, None)
        else:
            answers[name] = answer
    return answers


CASES = []


def add(state, answers, *args, both=True, **kwargs):
    for test in [False, True] if both else [False]:
        more = {key: kwargs[key] for key in ("grains", "env") if key in kwargs}
        rest = {key: value for key, value in kwargs.items() if key not in more}
        CASES.append({"state": state, "answers": answers(), "args": list(args), "kwargs": rest, "test": test, **more})


def after(**packages):
    return {**PRESENT, **{name.replace("_", "-"): [version] for name, version in packages.items()}}


def change(**packages):
    return {name.replace("_", "-"): {"new": new, "old": old} for name, (new, old) in packages.items()}


M = machine
add("pkg.installed", lambda: M(), "bash")
add("pkg.installed", lambda: M(), "bash:amd64")
add("pkg.installed", lambda: M(), "bash", version="5.2-1")
add("pkg.installed", lambda: M(), "bash", version="5.*")
add("pkg.installed", lambda: M(), "bash", version=">=5.0")
add("pkg.installed", lambda: M(), "bash", version=">=5.0,<6.0")
add("pkg.installed", lambda: M(), "vim", version="9.0-1")
add("pkg.installed", lambda: M(), "vim", version="9.0-1", ignore_epoch=False)
add("pkg.installed", lambda: M(), "vim", version="9.0-1", ignore_epoch=True)
add("pkg.installed", lambda: M(), "vim", version="<9.0-2")
add("pkg.installed", lambda: M(), "kernel", version="6.1-2")
add("pkg.installed", lambda: M(after=after(hello="2.10-3"), pkg__install=change(hello=("2.10-3", ""))), "hello")
add("pkg.installed", lambda: M(after=after(hello="2.10-3"), pkg__install=change(hello=("2.10-3", ""))), "hello", version="2.10-3")
add("pkg.installed", lambda: M(after=after(hello="2.10-3"), pkg__install=change(hello=("2.10-3", ""))), "hello", version="2.10*")
add("pkg.installed", lambda: M(after=after(hello="2.10-3"), pkg__install=change(hello=("2.10-3", ""))), "hello", version="3.0")
add("pkg.installed", lambda: M(after=after(hello="9.9-1"), pkg__install=change(hello=("9.9-1", ""))), "hello", version="latest")
add("pkg.installed", lambda: M(), "bash", version="latest")
add("pkg.installed", lambda: M(pkg__latest_version="", pkg__check_db=None), "bash", version="latest")
add("pkg.installed", lambda: M(pkg__latest_version=""), "nothing", version="latest")
add("pkg.installed", lambda: M(after=after(bash="5.3-1"), pkg__install=change(bash=("5.3-1", "5.2-1"))), "bash", version="5.3-1")
add("pkg.installed", lambda: M(after=after(bash="5.0-1"), pkg__install=change(bash=("5.0-1", "5.2-1"))), "bash", version="5.0-1")
add("pkg.installed", lambda: M(after=after(bash="5.2-1")), "bash", version="5.1-1", allow_updates=True)
add("pkg.installed", lambda: M(), "bash", version="5.3", allow_updates=True)
add("pkg.installed", lambda: M(), "hello")
add("pkg.installed", lambda: M(pkg__install=Raise("Problem encountered installing package(s)", {"errors": ["E: broken"], "changes": {}})), "hello")
add("pkg.installed", lambda: M(pkg__install=Raise("Problem encountered", {"changes": change(x=("1", ""))})), "hello")
add("pkg.installed", lambda: M(pkg__install=Raise("no such thing")), "hello")
add("pkg.installed", lambda: M(pkg__install="a text", after=after(hello="1")), "hello")
add("pkg.installed", lambda: M(pkg__list_pkgs=Raise("broken database")), "hello")
add("pkg.installed", lambda: M(), "many", pkgs=["bash", "vim"])
add("pkg.installed", lambda: M(after=after(hello="1", sl="2"), pkg__install=change(hello=("1", ""), sl=("2", ""))), "many", pkgs=["bash", "hello", "sl"])
add("pkg.installed", lambda: M(after=after(hello="1", sl="2"), pkg__install=change(hello=("1", ""), sl=("2", ""))), "many", pkgs=["bash", {"hello": "1"}, {"sl": ">=2"}])
add("pkg.installed", lambda: M(after=after(hello="1"), pkg__install=change(hello=("1", ""))), "many", pkgs=["hello", "sl"])
add("pkg.installed", lambda: M(after=after(hello="1"), pkg__install=change(hello=("1", ""))), "many", pkgs=[{"hello": 1}], refresh=True)
add("pkg.installed", lambda: M(), "many", pkgs=[])
add("pkg.installed", lambda: M(), "many", pkgs=["bash", "bash"], both=False)
add("pkg.installed", lambda: M(), "many", pkgs=["bash", "bash:amd64"], normalize=False)
add("pkg.installed", lambda: M(), "many", pkgs=[{"bash": "5.2-1"}, {"vim": None}])
add("pkg.installed", lambda: M(), "many", pkgs=["bash"], sources=[{"x": "/x.deb"}])
add("pkg.installed", lambda: M(), "bash", refresh=True)
add("pkg.installed", lambda: M(after=after(hello="1"), pkg__install=change(hello=("1", ""))), "hello", refresh=True, fromrepo="backports", skip_verify=True, install_recommends=False, only_upgrade=True, cache_valid_time=300)
add("pkg.installed", lambda: M(after=after(hello="1"), pkg__install=change(hello=("1", ""))), "hello", env="dev", update_holds=True)
add("pkg.installed", lambda: M(after=after(bash="5.2-1"), pkg__install=change(bash=("5.2-1", "5.2-1"))), "bash", reinstall=True)
add("pkg.installed", lambda: M(pkg__install={}), "bash", reinstall=True)
add("pkg.installed", lambda: M(pkg__install=change(bash=("5.2-1", "5.2-1"), hello=("1", "")), after=after(hello="1")), "many", pkgs=["hello", {"bash": "5.2-1"}], reinstall=True)
add("pkg.installed", lambda: M(), "bash", pkg_verify=True)
VERIFIED = {"/bin/bash": {"mismatch": ["size", "md5sum"]}}
add("pkg.installed", lambda: M(pkg__verify={}), "bash", pkg_verify=True)
add("pkg.installed", lambda: M(pkg__verify=Each([VERIFIED, {}]), pkg__install=change(bash=("5.2-1", "5.2-1"))), "bash", pkg_verify=True)
add("pkg.installed", lambda: M(pkg__verify=Each([VERIFIED, VERIFIED])), "bash", pkg_verify=[OrderedDict(ignore_types=["config", "doc"]), OrderedDict(verify_options=["nodeps"])])
add("pkg.installed", lambda: M(pkg__verify=Raise("cannot verify")), "bash", pkg_verify=True)
add("pkg.installed", lambda: M(pkg__verify=Each([VERIFIED, {}])), "bash", version="5.3", pkg_verify=True)
held = lambda name, new: {name: {"name": name, "changes": {"new": "hold", "old": "install"} if new else {}, "result": True, "comment": f"Package {name} is " + ("now being held." if new else "already set to be held.")}}
add("pkg.installed", lambda: M(pkg__hold=held("bash", True)), "bash", hold=True)
add("pkg.installed", lambda: M(pkg__hold=held("bash", False)), "bash", hold=True)
add("pkg.installed", lambda: M(pkg__unhold=held("bash", True)), "bash", hold=False)
add("pkg.installed", lambda: M(pkg__hold=held("hello", True), after=after(hello="1"), pkg__install=change(hello=("1", ""))), "hello", hold=True)
add("pkg.installed", lambda: M(pkg__hold={**held("hello", True), **held("bash", False)}, after=after(hello="1"), pkg__install=change(hello=("1", ""))), "many", pkgs=["hello", "bash"], hold=True)
add("pkg.installed", lambda: M(pkg__hold={**held("sl", True)}, after=after(hello="1"), pkg__install=change(hello=("1", ""))), "hello", hold=True)
add("pkg.installed", lambda: M(pkg__hold={"hello": {"name": "hello", "changes": {}, "result": False, "comment": "Unable to hold package hello."}}, after=after(hello="1"), pkg__install=change(hello=("1", ""))), "hello", hold=True)
add("pkg.installed", lambda: M(pkg__hold={"bash": {"name": "bash", "changes": {}, "result": False, "comment": "Unable to hold package bash."}}), "bash", hold=True)
add("pkg.installed", lambda: M(pkg__hold={"result": False, "comment": "no holds"}), "bash", hold=True)
add("pkg.installed", lambda: M(pkg__hold={"result": False, "comment": "no holds"}, after=after(hello="1"), pkg__install=change(hello=("1", ""))), "hello", hold=True)
add("pkg.installed", lambda: M(pkg__hold=Raise("hold failed")), "bash", hold=True)
add("pkg.installed", lambda: M(pkg__hold=Raise("hold failed", kind="invocation"), after=after(hello="1"), pkg__install=change(hello=("1", ""))), "hello", hold=True)
add("pkg.installed", lambda: M(pkg__hold=None), "bash", hold=True)
add("pkg.installed", lambda: M(pkg__check_db={"helo": {"found": False, "suggestions": ["hello", "helo2"]}, "xx": {"found": False, "suggestions": []}}), "many", pkgs=["helo", "xx", "bash"])
add("pkg.installed", lambda: M(pkg__check_db={"helo": {"found": False, "suggestions": ["hello"]}}), "helo")
add("pkg.installed", lambda: M(pkg__check_db={"hello": {"found": True, "suggestions": []}}, after=after(hello="1"), pkg__install=change(hello=("1", ""))), "hello")
add("pkg.installed", lambda: M(pkg__check_db=Raise("no db")), "hello")
add("pkg.installed", lambda: M(pkg__check_db={"helo": {"found": False, "suggestions": []}}), "helo", skip_suggestions=True)
SOURCES = [{"foo": "salt://foo.deb"}, {"bash": "/tmp/bash.deb"}]
add("pkg.installed", lambda: M(pkg__install=change(foo=("1", ""))), "files", sources=SOURCES)
add("pkg.installed", lambda: M(lowpkg__bin_pkg_info={"name": "bash", "version": "5.2-1"}, pkg__install=change(foo=("1", ""))), "files", sources=SOURCES)
add("pkg.installed", lambda: M(lowpkg__bin_pkg_info={"name": "bash", "version": "5.3-1"}, pkg__install=change(foo=("1", ""), bash=("5.3-1", "5.2-1"))), "files", sources=SOURCES)
add("pkg.installed", lambda: M(lowpkg__bin_pkg_info={"name": "bash", "version": "5.2-1"}), "files", sources=[{"bash": "/tmp/bash.deb"}])
add("pkg.installed", lambda: M(lowpkg__bin_pkg_info=None), "files", sources=[{"bash": "/tmp/bash.deb"}])
add("pkg.installed", lambda: M(cp__cache_file=""), "files", sources=SOURCES)
add("pkg.installed", lambda: M(cp__cache_file="/no/such/file"), "files", sources=SOURCES)
add("pkg.installed", lambda: M(cp__cache_file=Raise("no master")), "files", sources=SOURCES)
add("pkg.installed", lambda: M(pkg__install=change(bash=("5.2-1", "5.2-1"))), "files", sources=[{"bash": "/tmp/bash.deb"}], reinstall=True)
add("pkg.installed", lambda: M(), "files", sources=["nonsense"])
add("pkg.installed", lambda: M(purge={"gone": ["1"]}, before={**PRESENT, "gone": ["1"]}), "gone")
add("pkg.installed", lambda: M(purge={"gone": ["1"]}, before={**PRESENT, "gone": ["1"]}, lowpkg__unpurge=None), "gone")
add("pkg.installed", lambda: M(pkg__resolve_capabilities=lambda pkgs, **kw: ["bash"], pkg__list_provides={"sh": ["bash"]}), "sh", resolve_capabilities=True)
add("pkg.installed", lambda: M(pkg__list_provides={"sh": ["bash"]}), "sh", resolve_capabilities=True)
add("pkg.installed", lambda: M(pkg__normalize_name=None, pkg__version_clean=lambda v: v.split("[")[0] or None), "bash", version="[flag]")
add("pkg.installed", lambda: M(pkg__check_extra_requirements=False, after=PRESENT, pkg__install=change(bash=("5.2-1", "5.2-1"))), "bash", version="5.2-1")
add("pkg.installed", lambda: M(before={f"p{n}": ["1"] for n in range(25)}, after={**{f"p{n}": ["1"] for n in range(25)}, "q": ["1"]}, pkg__install=change(q=("1", ""))), "many", pkgs=[f"p{n}" for n in range(25)] + ["q"])
add("pkg.installed", lambda: M(pkg__install={"hello": {"install status": "task started"}}), "hello")
add("pkg.mod_watch", lambda: M(), "bash", sfun="installed")
add("pkg.mod_watch", lambda: M(), "bash", sfun="held")

add("pkg.latest", lambda: M(), "hello")
add("pkg.latest", lambda: M(pkg__install=change(bash=("9.9-1", "5.2-1"))), "bash")
add("pkg.latest", lambda: M(pkg__install=change(bash=("9.8", "5.2-1"))), "bash")
add("pkg.latest", lambda: M(pkg__install=change(bash=("9.8,9.9-1", "5.2-1"))), "bash")
add("pkg.latest", lambda: M(pkg__latest_version=""), "bash")
add("pkg.latest", lambda: M(pkg__latest_version="", pkg__version=""), "nothing")
add("pkg.latest", lambda: M(pkg__latest_version=Raise("no network")), "bash")
add("pkg.latest", lambda: M(pkg__version=Raise("broken")), "bash")
add("pkg.latest", lambda: M(pkg__install=Raise("broken", {"changes": {}, "errors": ["x"]})), "bash")
add("pkg.latest", lambda: M(pkg__install=change(a=("9.9-1", ""), b=("1", ""))), "many", pkgs=["a", "b"], refresh=True)
add("pkg.latest", lambda: M(pkg__install=change(a=("9.9-1", "")), pkg__latest_version={"a": "9.9-1", "b": ""}), "many", pkgs=["a", "b"], fromrepo="x")
add("pkg.latest", lambda: M(pkg__latest_version={"a": "9.9-1", "b": "2", "c": ""}), "many", pkgs=["a", "b", "c"])
add("pkg.latest", lambda: M(pkg__latest_version={"a": "", "b": ""}), "many", pkgs=["b", "a"])
add("pkg.latest", lambda: M(pkg__latest_version={}), "many", pkgs=[f"p{n}" for n in range(12)])
add("pkg.latest", lambda: M(pkg__latest_version={f"p{n}": "2" for n in range(12)}), "many", pkgs=[f"p{n}" for n in range(12)])
add("pkg.latest", lambda: M(pkg__latest_version={"p1": "2"}, pkg__install=change(p1=("2", "1"))), "many", pkgs=[f"p{n}" for n in range(14)])
add("pkg.latest", lambda: M(pkg__latest_version={"p1": "2"}), "many", pkgs=[f"p{n}" for n in range(14)])
add("pkg.latest", lambda: M(pkg__latest_version={"a": "", "b": "2"}, pkg__version={"a": "", "b": "1"}), "many", pkgs=["a", "b"])
add("pkg.latest", lambda: M(), "many", pkgs=[])
add("pkg.latest", lambda: M(), "x", sources=[{"a": "b"}])
add("pkg.mod_watch", lambda: M(pkg__install=change(bash=("9.9-1", "5.2-1"))), "bash", sfun="latest")

WITHOUT = {name: versions for name, versions in PRESENT.items() if name != "bash"}
for action in ("removed", "purged"):
    do = {"removed": "remove", "purged": "purge"}[action]
    gone = {f"pkg__{do}": change(bash=("", "5.2-1")) if action == "removed" else {"installed": change(bash=("", "5.2-1")), "removed": {}}}
    add(f"pkg.{action}", lambda: M(), "nothing")
    add(f"pkg.{action}", lambda: M(after=WITHOUT, **gone), "bash")
    add(f"pkg.{action}", lambda: M(after=WITHOUT, **gone), "bash:amd64")
    add(f"pkg.{action}", lambda: M(after=WITHOUT, **gone), "bash", version="5.2-1")
    add(f"pkg.{action}", lambda: M(after=WITHOUT, **gone), "bash", version="<4")
    add(f"pkg.{action}", lambda: M(after=WITHOUT, **gone), "many", pkgs=["bash", "nothing"])
    add(f"pkg.{action}", lambda: M(after=WITHOUT, **gone), "many", pkgs=[{"bash": "5.2-1"}])
    add(f"pkg.{action}", lambda: M(after=WITHOUT, **gone), "many", pkgs=[{"bash": "5.1"}])
    add(f"pkg.{action}", lambda: M(**gone), "bash")
    add(f"pkg.{action}", lambda: M(**gone), "many", pkgs=[{"bash": "5.2-1"}], grains={"os": "CentOS", "os_family": "RedHat"})
    add(f"pkg.{action}", lambda: M(**gone), "bash", grains={"os": "CentOS", "os_family": "RedHat"})
    add(f"pkg.{action}", lambda: M(**{f"pkg__{do}": Raise("Problem encountered removing package(s)", {"errors": ["E: locked"], "changes": {}})}), "bash")
    add(f"pkg.{action}", lambda: M(**{f"pkg__{do}": Raise("locked")}), "bash")
    add(f"pkg.{action}", lambda: M(removed={"old": ["1"]}, after=WITHOUT, **gone), "many", pkgs=["old", "bash"])
    add(f"pkg.{action}", lambda: M(removed={"old": ["1"]}), "old")
    add(f"pkg.{action}", lambda: M(after=WITHOUT, **gone), "bash", normalize=False, ignore_epoch=True, extra="x")
    add("pkg.mod_watch", lambda: M(after=WITHOUT, **gone), "bash", sfun=action)

UP = {"bash": "5.3", "vim": "10"}
add("pkg.uptodate", lambda: M(), "all")
add("pkg.uptodate", lambda: M(pkg__list_upgrades=UP, pkg__upgrade=change(bash=("5.3", "5.2-1"))), "all", refresh=True)
add("pkg.uptodate", lambda: M(pkg__list_upgrades=UP, pkg__upgrade=change(bash=("5.3", "5.2-1"))), "all", pkgs=["bash"])
add("pkg.uptodate", lambda: M(pkg__list_upgrades=UP, pkg__upgrade=change(bash=("5.3", "5.2-1"))), "all", pkgs=["bash", "vim"])
add("pkg.uptodate", lambda: M(pkg__list_upgrades=UP), "all", pkgs=["other"])
add("pkg.uptodate", lambda: M(pkg__list_upgrades=Raise("no network")), "all")
add("pkg.uptodate", lambda: M(pkg__list_upgrades=UP, pkg__upgrade=Raise("broken")), "all")
add("pkg.uptodate", lambda: M(pkg__list_upgrades=UP, pkg__upgrade=Raise("broken", {"changes": change(bash=("5.3", "5.2-1")), "result": {"retcode": 1}})), "all")
add("pkg.uptodate", lambda: M(pkg__list_upgrades=None), "all")
add("pkg.uptodate", lambda: M(), "all", refresh="yes")

hold = lambda *names: {n: {"name": n, "changes": {"new": "hold", "old": ""}, "result": True, "comment": f"Package {n} is now being held."} for n in names}
unhold = lambda *names: {n: {"name": n, "changes": {"new": "", "old": "hold"}, "result": True, "comment": f"Package {n} is no longer being held."} for n in names}
LOCKS = {"bash": {"version": "= 5.2-1"}, "vim": {"version": "1"}, "patchy": {"type": "patch"}}
for locks in (dict(pkg__get_selections={"hold": ["vim"]}), dict(pkg__list_locks=LOCKS), dict(pkg__list_holds=["vim-2:9.0-1.*", "x-0:1.*", "odd"])):
    for kwargs in ({}, {"version": "5.2-1"}, {"pkgs": ["bash", {"vim": "2"}]}, {"pkgs": ["bash"], "replace": True}, {"pkgs": [], "replace": True}, {"pkgs": []}):
        add("pkg.held", lambda: M(pkg__hold=lambda name=None, pkgs=None, **kw: hold(next(iter(pkgs[0])) if isinstance(pkgs[0], dict) else pkgs[0]), pkg__unhold=lambda name=None, pkgs=None, **kw: unhold(*pkgs), **locks), "bash", **kwargs)
    for kwargs in ({}, {"pkgs": ["vim"]}, {"pkgs": [{"vim": "1"}]}, {"pkgs": [{"vim": "3"}]}, {"all": True}, {"pkgs": []}, {"version": "5.2-1"}):
        add("pkg.unheld", lambda: M(pkg__unhold=lambda name=None, pkgs=None, **kw: unhold(*pkgs), **locks), "bash", **kwargs)
add("pkg.held", lambda: M(pkg__get_selections=None), "bash")
add("pkg.held", lambda: M(pkg__hold=None), "bash")
add("pkg.held", lambda: M(pkg__hold={}), "bash")
add("pkg.unheld", lambda: M(pkg__get_selections=None), "bash")
add("pkg.unheld", lambda: M(pkg__get_selections={"hold": ["bash"]}, pkg__unhold={}), "bash")

DIFF = lambda a=(), b=(), c=(), d=(): {"mandatory": {"installed": list(a), "not installed": list(b)}, "default": {"installed": list(c), "not installed": list(d)}, "optional": {"installed": [], "not installed": ["o"]}, "conditional": {"installed": [], "not installed": []}}
RED = {"os": "CentOS", "os_family": "RedHat"}
add("pkg.group_installed", lambda: M(), "dev")
add("pkg.group_installed", lambda: M(pkg__group_diff=DIFF(["bash"])), "dev")
add("pkg.group_installed", lambda: M(pkg__group_diff=DIFF(["bash"], ["gcc"], [], ["make"]), before={"gcc": "1", "make": "1"}, pkg__install=change(gcc=("1", ""))), "dev", grains=RED)
add("pkg.group_installed", lambda: M(pkg__group_diff=DIFF([], ["gcc"], [], ["make"]), pkg__install=change(gcc=("1", ""))), "dev", skip=["make"], include=["git"])
add("pkg.group_installed", lambda: M(pkg__group_diff=DIFF([], ["gcc"])), "dev", skip=["gcc"])
add("pkg.group_installed", lambda: M(pkg__group_diff=DIFF([], ["gcc"])), "dev", skip="gcc")
add("pkg.group_installed", lambda: M(pkg__group_diff=DIFF([], ["gcc"])), "dev", include="gcc")
add("pkg.group_installed", lambda: M(pkg__group_diff=Raise("Group 'dev' not found")), "dev", fromrepo="x")
add("pkg.group_installed", lambda: M(pkg__group_diff=DIFF([], ["gcc"]), pkg__install=Raise("broken")), "dev")
add("pkg.group_installed", lambda: M(pkg__group_diff=DIFF([], ["gcc"]), pkg__install=Raise("broken", {"changes": change(x=("1", "")), "errors": ["e"]})), "dev")

DOWN = {"hello": {"1.0": {"path": "/x"}}}
add("pkg.downloaded", lambda: M(), "hello")
add("pkg.downloaded", lambda: M(pkg__list_downloaded=DOWN), "hello")
add("pkg.downloaded", lambda: M(pkg__list_downloaded=DOWN), "hello", version="1.0")
add("pkg.downloaded", lambda: M(pkg__list_downloaded=Each([{}, {"sl": {"2": {}}}]), pkg__install={"sl": {"2": {}}}), "sl", fromrepo="r", downloadonly=False)
add("pkg.downloaded", lambda: M(pkg__list_downloaded=Each([{}, {"sl": {"2": {}}}])), "sl", version="2")
add("pkg.downloaded", lambda: M(pkg__list_downloaded=Each([{}, {}])), "sl", version="2")
add("pkg.downloaded", lambda: M(pkg__list_downloaded=DOWN, pkg__check_db={"sl": {"found": False, "suggestions": []}}), "many", pkgs=["hello", "sl"])
add("pkg.downloaded", lambda: M(pkg__list_downloaded={}, pkg__install=Raise("broken")), "many", pkgs=["hello", {"sl": "2"}])
add("pkg.downloaded", lambda: M(pkg__list_downloaded={}), "many", pkgs=[])
PATCHES = dict(pkg__list_patches={}, pkg__list_installed_patches={"SUSE-1": {"installed": True}})
add("pkg.patch_installed", lambda: M(), "SUSE-1")
add("pkg.patch_installed", lambda: M(**PATCHES), "SUSE-1")
add("pkg.patch_installed", lambda: M(**PATCHES), "SUSE-2")
add("pkg.patch_installed", lambda: M(**PATCHES, pkg__install=change(x=("1", "0"))), "patches", advisory_ids=["SUSE-1", "SUSE-2"])
add("pkg.patch_installed", lambda: M(**PATCHES), "patches", advisory_ids=["SUSE-1"])
add("pkg.patch_installed", lambda: M(**PATCHES), "patches", advisory_ids=[])
add("pkg.patch_installed", lambda: M(**PATCHES, pkg__install=Raise("broken")), "SUSE-2", downloadonly=True)
add("pkg.patch_downloaded", lambda: M(), "SUSE-2")
add("pkg.patch_downloaded", lambda: M(**PATCHES), "SUSE-2")

"""Sources of packages on Debian, Ubuntu, RHEL and SUSE."""

import salt.utils.path

from record_calls import Each, Raise

CASES = []
LINE = "deb [signed-by=/etc/apt/keyrings/k.asc] https://example.org/apt stable main"
DEB = {"file": "/etc/apt/sources.list.d/x.list", "comps": ["main"], "disabled": False, "enabled": True, "dist": "stable",
       "suites": ["stable"], "type": "deb", "types": ["deb"], "uri": "https://example.org/apt",
       "uris": ["https://example.org/apt"], "line": LINE, "architectures": [], "signedby": "/etc/apt/keyrings/k.asc"}
RPM = {"name": "Extra", "baseurl": "https://example.org/rpm", "gpgcheck": "1", "enabled": "1", "comments": ["one"], "file": "/x.repo"}
RED = {"os": "CentOS", "os_family": "RedHat"}
SUSE = {"os": "SUSE", "os_family": "Suse"}
UBUNTU = {"os": "Ubuntu", "os_family": "Debian", "oscodename": "jammy"}


def add(state, answers, name, grains=None, apt_key=False, **kwargs):
    def patch(module):
        salt.utils.path.which = lambda program: "/usr/bin/apt-key" if apt_key else None

    for test in (False, True):
        CASES.append({"state": state, "answers": dict(answers), "args": [name], "kwargs": kwargs, "test": test,
                      "grains": grains or {}, "opts": {"__apt_key": apt_key}, "patch": patch})


def repos(get, **more):
    answers = {"pkg.get_repo": get if isinstance(get, Each) else Each([get]), "pkg.mod_repo": {}, "pkg.del_repo": "gone",
               "pkg.list_repos": {}, "pkg.del_repo_key": "ABCD", "test.ping": True}
    for name, answer in more.items():
        name = name.replace("__", ".", 1)
        if answer is None:
            answers.pop(name)
        else:
            answers[name] = answer
    return answers


M, A = "pkgrepo.managed", "pkgrepo.absent"
add(M, repos(DEB), LINE)
add(M, repos(DEB), LINE, apt_key=True)
add(M, repos(Each([{}, DEB])), LINE, file="/etc/apt/sources.list.d/x.list", key_url="https://example.org/key.asc")
add(M, repos(Each([{}, DEB])), LINE, file="/etc/apt/sources.list.d/x.list", key_url="http://example.org/key.asc", allow_insecure_key=False)
add(M, repos(DEB), LINE, file="/etc/apt/sources.list.d/x.list", key_url="https://example.org/key.asc")
add(M, repos(Each([DEB, {**DEB, "disabled": True, "line": "# " + LINE}])), LINE, disabled=True)
add(M, repos(DEB), LINE, enabled=False)
add(M, repos(DEB), LINE, enabled=True)
add(M, repos({**DEB, "disabled": True, "enabled": False, "line": "# " + LINE}), LINE, enabled=True)
add(M, repos(DEB), LINE, enabled=True, disabled=True)
add(M, repos(DEB), LINE, comps="main,extra")
add(M, repos({**DEB, "comps": ["extra", "main"]}), LINE + " extra", comps="main,extra")
add(M, repos(DEB), LINE, architectures="amd64")
add(M, repos({**DEB, "architectures": ["arm64", "amd64"]}), LINE.replace("[", "[arch=amd64,arm64 "), architectures="amd64,arm64")
add(M, repos({**DEB, "uri": "https://example.org/apt/", "uris": ["https://example.org/apt/"]}), LINE)
add(M, repos(DEB), LINE, comments=["a", "b"])
add(M, repos({**DEB, "line": LINE + " #a b"}), LINE, comments=["a", "b"])
add(M, repos({**DEB, "line": LINE + " # why"}), LINE)
add(M, repos(DEB), LINE, dist="testing")
add(M, repos(DEB), LINE, repo="x")
add(M, repos(DEB), LINE, key_url="https://k", keyid="ABCD")
add(M, repos({}), LINE, key_url="https://k", keyid="ABCD", keyserver="s")
add(M, repos({}), LINE, key_url="https://k", key_text="text")
add(M, repos({}), LINE, key_text="text", keyserver="s")
add(M, repos(DEB, pkg__get_repo=None), LINE)
add(M, repos(Raise("broken sources")), LINE)
add(M, repos({}, pkg__mod_repo=Raise("cannot write")), LINE)
add(M, repos(Each([{}, Raise("vanished")])), LINE)
add(M, repos(Each([{}, DEB])), LINE, refresh=False, env="dev")
add(M, repos(Each([{}, DEB])), "deb http://x y", file="/etc/apt/sources.list.d/own.sources", trusted=True)
add(M, repos(Each([{}, DEB])), "whatever", grains=UBUNTU, ppa="owner/name")
add(M, repos(Each([{}, DEB])), "ppa:owner/name", grains=UBUNTU)
add(M, repos(Each([{}, DEB])), "ppa:owner/name", grains=UBUNTU, ppa_auth="me:secret")
for grains in (RED, SUSE):
    add(M, repos(RPM), "extra", grains=grains, humanname="Extra", baseurl="https://example.org/rpm", gpgcheck=1)
    add(M, repos(RPM), "extra", grains=grains, humanname="Extra", baseurl="https://example.org/rpm", gpgcheck=True, enabled=True)
    add(M, repos(RPM), "extra", grains=grains, humanname="Extra", gpgcheck=False)
    add(M, repos(RPM), "extra", grains=grains, humanname="Other")
    add(M, repos(Each([RPM, {**RPM, "enabled": "0"}])), "extra", grains=grains, humanname="Extra", enabled=False)
    add(M, repos({key: RPM[key] for key in ("name", "baseurl")}), "extra", grains=grains, humanname="Extra", disabled=True)
    add(M, repos({key: RPM[key] for key in ("name", "baseurl")}), "extra", grains=grains, humanname="Extra")
    add(M, repos(Each([{}, RPM])), "extra", grains=grains, humanname="Extra", baseurl="https://example.org/rpm", key_url="https://k")
    add(M, repos(RPM), "extra", grains=grains, humanname="Extra", key_url="https://k")
    add(M, repos(RPM), "extra", grains=grains, humanname="Extra", comments=["one"])
    add(M, repos(RPM), "extra", grains=grains, humanname="Extra", comments=["two"])
    add(M, repos(Each([{}, RPM])), "extra", grains=grains, copr="owner/project")
    add(A, repos(RPM), "extra", grains=grains)
    add(A, repos({}), "extra", grains=grains)
    add(A, repos(RPM), "extra", grains=grains, copr="owner/project")
add(A, repos({}), LINE)
add(A, repos(DEB), LINE)
add(A, repos(DEB), LINE.replace("/apt ", "/apt/ "))
add(A, repos(DEB), LINE.replace("[", "[arch=amd64 "))
add(A, repos({**DEB, "architectures": ["amd64"]}), LINE.replace("[", "[arch=amd64 "))
add(A, repos(DEB, pkg__list_repos={LINE: []}), LINE)
add(A, repos(DEB), LINE, keyid="ABCD")
add(A, repos(DEB, pkg__del_repo_key=None), LINE, keyid="ABCD")
add(A, repos(DEB, pkg__del_repo_key=Raise("no key")), LINE, keyid="ABCD")
add(A, repos(DEB, pkg__del_repo_key=Raise("bad key", kind="invocation")), LINE, keyid="ABCD")
add(A, repos(DEB, pkg__del_repo=Raise("cannot write")), LINE)
add(A, repos(DEB, pkg__del_repo=Raise("odd", kind="invocation")), LINE)
add(A, repos(Raise("broken")), LINE)
add(A, repos(DEB), "x", grains=UBUNTU, ppa="owner/name")
add(A, repos(DEB), "x", grains=UBUNTU, ppa="ppa:owner/name")

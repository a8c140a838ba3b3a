"""zypper and rpm on SUSE."""

from record_programs import ROOT, Machine

CASES = []
MARK = "_|-"
SUSE = {"os": "SUSE", "os_family": "Suse", "osarch": "x86_64", "osrelease": "15.5", "osrelease_info": [15, 5]}
REPO = """[oss]
name=Main Repository
enabled=1
autorefresh=1
baseurl=http://download.opensuse.org/distribution/leap/15.5/repo/oss/
path=/
type=rpm-md
keeppackages=0
"""
OWN = """[own]
name=Own
enabled=0
autorefresh=0
baseurl=http://own.example/
type=NONE
priority=120
"""
FILES = {"/etc/zypp/repos.d/oss.repo": REPO, "/etc/zypp/repos.d/own.repo": OWN, "/etc/zypp/repos.d/notes": "no\n"}
LOCKS = {"/etc/zypp/locks": """
type: package
match_type: glob
case_sensitive: on
solvable_name: vim

type: package
match_type: glob
case_sensitive: on
solvable_name: bash
version: = 4.4-9.14.1

type: pattern
solvable_name: base
"""}
XML = "<?xml version='1.0'?>\n<stream>\n{}\n</stream>\n"
UPDATES = XML.format("""<message type="info">Loading repository data...</message>
<update-status version="0.6"><update-list>
<update name="bash" kind="package" edition="4.4-150400.25.22" arch="x86_64" edition-old="4.4-9.14.1"><summary>The shell</summary></update>
<update name="SUSE-1" kind="patch" edition="1" arch="noarch"/>
</update-list></update-status>""")


def solvables(*rows):
    names = ("status", "name", "kind", "edition", "arch", "repository", "summary")
    lines = ["<solvable " + " ".join(f'{key}="{value}"' for key, value in zip(names, row) if value is not None) + "/>" for row in rows]
    return XML.format("<search-result version=\"0.0\"><solvable-list>" + "\n".join(lines) + "</solvable-list></search-result>")


VIM = solvables(("installed", "vim", "package", "9.0-1.1", "x86_64", "oss", "Vi IMproved"), ("not-installed", "vim", "package", "9.1-2.1", "x86_64", "own", None),
                ("other-version", "vim-data", "package", "9.1-2.1", "noarch", "own", None), ("not-installed", "vim", "srcpackage", "9.1-2.1", "noarch", "own", None))
PATCHES = solvables(("installed", "openSUSE-1", "patch", "1", "noarch", "u", "Fix"), ("not-installed", "openSUSE-2", "patch", "1", "noarch", "u", "More &amp; more"))
PATTERNS = solvables(("installed", "base", "pattern", "1", "x86_64", "oss", "Base"), ("not-installed", "gnome", "pattern", "1", "x86_64", "oss", "GNOME"))
PRODUCTS = XML.format("""<product-list>
<product name="Leap" version="15.5" release="1" epoch="0" arch="x86_64" vendor="openSUSE" summary="openSUSE Leap" repo="@System" productline="Leap" registerrelease=""
 shortname="openSUSE" flavor="ftp" isbase="true" installed="1"><endoflife time_t="1735603200" text="2024-12-31T00:00:00Z"/><registerflavor/>
<description>openSUSE Leap is a
  stable distribution.</description></product>
<product name="other" version="1" release="2" epoch="0" arch="x86_64" isbase="0" installed="false"><description/></product>
</product-list>""")
INFO = """Loading repository data...
Reading installed packages...


Information for package bash:
-----------------------------
Repository     : Main Repository
Name           : bash
Version        : 4.4-150400.25.22
Arch           : x86_64
Vendor         : SUSE LLC <https://www.suse.com/>
Installed Size : 1.2 MiB
Installed      : Yes
Status         : out-of-date (version 4.4-9.14.1 installed)
Summary        : The GNU Bourne-Again Shell
Description    :
    Bash is an sh-compatible command interpreter.

Information for package nginx:
------------------------------
Name           : nginx
Version        : 1.21.5-1
Arch           : x86_64
Installed      : No
Status         : not installed

Information for package vim:
----------------------------
Name           : vim
Version        : 9.0-1.1
Arch           : x86_64
Installed      : Yes (automatically)
Status         : up-to-date
"""
QUERY = """name: {0}
epoch: 2
edition: 2:9.0-1.1
-----
"""
REFRESH = """Repository 'Main Repository' is up to date.
Retrieving repository 'Own' metadata [...done]
Building repository 'Own' cache [....done]
All repositories have been refreshed.
"""
PROBLEM = XML.format('<message type="info">x</message><message type="error">Repository has problems.</message><message type="error">Really.</message>')


class Suse(Machine):
    fails = None
    code = 4
    lower = False
    removed = None

    def __init__(self, **more):
        self.__dict__.update(more)

    def changing(self, words):
        if words[0] != "zypper":
            return False
        verbs = {"install", "update", "dist-upgrade", "remove", "removeptf", "refresh", "ar", "rr", "mr", "al", "rl", "cl", "download"}
        return bool(verbs & set(words)) and not {"se", "search", "info", "products", "list-updates"} & set(words)

    def rpm(self, words, stage):
        if words[1] == "-qa" or words[3:4] == ["-qa"]:
            if "PROVIDES" in words[-1]:
                return "bash_|-bash\n/bin/sh_|-bash\nsh_|-bash\nsh_|-dash\n"
            rows = [["bash", "(none)", "4.4", "9.14.1"], ["vim", "0", "9.0", "1.1"], ["kernel-default", "(none)", "5.14", "1"],
                    ["kernel-default", "(none)", "5.14", "2"], ["gpg-pubkey", "(none)", "3dbdc284", "53674dd4"]]
            if stage > 0:
                rows = [["bash", "(none)", "4.4", "150400.25.22"], ["nginx", "1", "1.21.5", "1"], *rows[2:]]
            return "\n".join(MARK.join([*row, "x86_64", "(none)", "1700000000"]) for row in rows) + "\n"
        if "--qf" in words:
            return "".join(f"{name}: {name} = 1 {'ptf()' if name == 'ptf-1' else ''} \n" if name != "nope" else "package nope is not installed\n"
                           for name in words[words.index("--qf") + 2:])
        if "--whatprovides" in words:
            return "pattern() = base\npattern() = hidden-one\npattern() = .dot\npattern-icon() = x\n"
        if "--querytags" in words:
            return "NAME\nSIZE\n"
        if "-q" in words:
            return QUERY.format(words[2])
        if "-qf" in words:
            return "vim"
        raise KeyError(words)

    def answer(self, words, stage):
        if words[0] == "rpm":
            return self.rpm(words, stage)
        xml = "--xmlout" in words
        if self.fails and self.fails in words:
            return (PROBLEM if xml else "Problem: nothing provides x\n", "" if xml else "Error here\n", self.code)
        if "refresh" in words:
            return REFRESH
        if "list-updates" in words:
            return UPDATES
        if "info" in words:
            return INFO
        if words[-3:-1] == ["-t", "patch"] or words[-2:] == ["-t", "patch"]:
            return PATCHES
        if words[-2:] == ["-t", "pattern"]:
            return PATTERNS
        if "products" in words:
            return PRODUCTS
        if "se" in words or "search" in words:
            return (XML.format('<message type="info">No matching items found.</message>'), "", 104) if words[-1] in ("nope", "w3m_ssl") and "--provides" not in words else \
                solvables(("installed", "bash", "package", "4.4-9.14.1", "x86_64", "oss", None)) if words[-1] in ("bash", "w3m_ssl") else VIM
        if "rr" in words:
            return XML.format('<progress id="1" name="x" done="1"/><message type="info">Repository \'Own\' has been removed.</message>')
        if "cl" in words:
            return XML.format('<message type="info">Removed 2 locks.</message>')
        if "ps" in words:
            return "sshd\ncron\n"
        if self.lower and "--force" not in words:
            return "The selected package 'vim-8.0-1.x86_64' from repository 'oss' has lower version than the installed one.\n"
        return XML.format('<message type="info">done</message>') if xml else "done\n"


def add(fun, *args, machine=None, files=None, crash=False, pillar=None, **kwargs):
    def patch(module, root):
        module.REPOS, module.LOCKS = root + "/etc/zypp/repos.d", root + "/etc/zypp/locks"
        module.__zypper__ = module._Zypper()
        module._Zypper.RPM_LOCK = root + "/none"

    CASES.append({
        "provider": "zypperpkg", "helpers": {"lowpkg": "rpm_lowpkg"}, "fun": "pkg." + fun, "args": list(args), "kwargs": kwargs, "grains": SUSE,
        "machine": machine or Suse(), "files": files or {}, "patch": patch, "crash": crash,
    })


add("list_pkgs")
add("list_pkgs", versions_as_list=True)
add("list_pkgs", attr=["arch"])
add("list_pkgs", includes=["pattern", "product"], crash=True)
add("list_pkgs", removed=True)
add("version", "bash")
add("version", "kernel-default", "nope")
add("version_cmp", "1.0-1", "1.0-2")
for name in ("zsh.x86_64", "zsh.i686", "zsh.noarch", "python3.11", "zsh"):
    add("normalize_name", name)
    add("parse_arch", name)
add("list_upgrades")
add("list_updates", refresh=False, fromrepo=["oss", "own"])
add("list_upgrades", refresh=False, fromrepo="oss")
add("list_upgrades", refresh=False, machine=Suse(fails="list-updates"))
add("info_available", "bash", "nginx")
add("info_available")
for names in (("bash",), ("nginx",), ("vim",), ("nope",), ("bash", "vim", "nginx"), ()):
    add("latest_version", *names, refresh=False)
add("available_version", "nginx")
add("upgrade_available", "bash", refresh=False)
add("upgrade_available", "vim", refresh=False)
add("info_installed", "vim", attr="edition,epoch")
add("list_repo_pkgs", "vim")
add("list_repo_pkgs", "vim", byrepo=True, fromrepo="own")
add("list_repo_pkgs", "vim*")
add("search", "vim")
add("search", "vim", match="exact", provides=True, installed_only=True, details=True)
add("search", "nope")
add("list_provides")
add("resolve_capabilities", ["bash", {"vim": "9"}])
add("resolve_capabilities", ["bash", {"w3m_ssl": "9"}, "nope"], resolve_capabilities=True)
add("refresh_db")
add("refresh_db", force=False, gpgautoimport=True)
add("refresh_db", repos=["oss"])
add("refresh_db", machine=Suse(fails="refresh"))
add("refresh_db", machine=Suse(fails="refresh", code=106))
add("list_repos", files=FILES)
add("get_repo", "own", files=FILES)
add("get_repo", "nope", files=FILES)
add("del_repo", "own", files=FILES)
add("del_repo", "nope", files=FILES)
add("del_repo", "own", files=FILES, machine=Suse(fails="rr"))
M = "mod_repo"
add(M, "own", files=FILES, enabled=True)
add(M, "own", files=FILES, enabled=False, refresh=True, cache=False, gpgcheck=True, priority=10, name="New name")
add(M, "own", files=FILES)
add(M, "own", files=FILES, baseurl="http://own.example/", gpgautoimport=True)
add(M, "new", files=FILES)
add(M, "new", files=FILES, baseurl="nonsense")
add(M, "new", files=FILES, baseurl="http://own.example/")
add(M, "new", files=FILES, url="http://new.example/x")
add(M, "own", files=FILES, enabled=True, machine=Suse(fails="mr"))
add("install", "nginx")
add("install", "nginx,vim", refresh=True)
add("install", pkgs=["nginx", {"bash": "4.4-150400.25.22"}, {"vim": "<10"}])
add("install", "vim", version="9*")
add("install", "vim", version=">9.0*")
add("install", "vim", version="8*")
add("install", "vim", version="=>9")
add("install", "nope", version="1")
add("install", "vim", machine=Suse(lower=True))
add("install", "nginx", fromrepo="own", skip_verify=True, no_recommends=True)
add("install", "nginx", resolve_capabilities=True, diff_attr=["arch"])
add("install", "nginx", machine=Suse(fails="nginx"))
add("install", "nginx", machine=Suse(fails="nginx"), ignore_repo_failure=True)
add("install", "nginx", machine=Suse(fails="nginx", code=107))
add("install", sources=[{"x": ROOT + "/x.rpm"}], files={"/x.rpm": "x"})
add("install", "x", advisory_ids=["openSUSE-2"])
add("install", "x", advisory_ids=["openSUSE-9"])
add("install", pkgs=[])
add("upgrade")
add("upgrade", refresh=False, dryrun=True)
add("upgrade", refresh=False, fromrepo="oss", skip_verify=True)
add("upgrade", "bash", refresh=False)
add("upgrade", pkgs=["bash", {"vim": "1"}], refresh=False, diff_attr=["arch"])
add("upgrade", refresh=False, dist_upgrade=True, fromrepo=["a", "b"], novendorchange=True, no_recommends=True)
add("upgrade", refresh=False, dist_upgrade=True, dryrun=True)
add("upgrade", refresh=False, machine=Suse(fails="update"))
add("upgrade", refresh=False, machine=Suse(fails="update", code=102))
add("remove", "vim")
add("remove", pkgs=["vim", {"bash": "4.4-9.14.1"}, {"kernel-default": "9"}, "nope"])
add("remove", "nope")
add("remove", "ptf-1")
add("remove", "vim", machine=Suse(fails="remove"))
add("purge", "vim,ptf-1")
add("list_locks", files=LOCKS)
add("list_locks")
add("list_holds", files=LOCKS)
add("list_holds", pattern="vim", full=False, files=LOCKS)
add("list_holds", pattern="vim", files=LOCKS)
add("clean_locks", files=LOCKS)
add("clean_locks")
add("hold", "nginx", files=LOCKS)
add("hold", "vim", files=LOCKS)
add("hold", pkgs=["nginx", {"glibc": "2.31"}, "bash"], files=LOCKS)
add("hold")
add("unhold", "vim", files=LOCKS)
add("unhold", "nginx", files=LOCKS)
add("unhold", pkgs=["bash", "vim"], files=LOCKS)
add("unhold", pkgs=[{"bash": "4.4-9.14.1"}], files=LOCKS)
add("unhold", pkgs=[{"bash": "9"}], files=LOCKS)
add("unhold")
add("list_patches")
add("list_installed_patches")
add("list_patterns")
add("list_installed_patterns")
add("list_products")
add("list_products", all=True, refresh=True)
add("services_need_restart")
add("owner", "/usr/bin/vim")

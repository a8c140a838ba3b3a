"""dnf, dnf5, yum and rpm on Rocky, Fedora and CentOS."""

from record_programs import ROOT, Machine

CASES = []
MARK = "_|-"
ROCKY = {"os": "Rocky", "os_family": "RedHat", "osarch": "x86_64", "osmajorrelease": 9, "osrelease": "9.3"}
SEVEN = {"os": "CentOS", "os_family": "RedHat", "osarch": "x86_64", "osmajorrelease": 7, "osrelease": "7.9"}
FEDORA = {"os": "Fedora", "os_family": "RedHat", "osarch": "x86_64", "osmajorrelease": 40, "osrelease": "40"}
INSTALLED = {
    "bash": ["(none)", "5.1.8", "6.el9_1", "x86_64"], "bind-utils": ["32", "9.16.23", "11.el9", "x86_64"],
    "glibc": ["(none)", "2.34", "60.el9", "x86_64"], "tzdata": ["0", "2023c", "1.el9", "noarch"],
    "python3-dnf-plugin-versionlock": ["(none)", "4.3.0", "5.el9", "noarch"], "yum-plugin-versionlock": ["(none)", "1.1.31", "54.el7_8", "noarch"],
    "httpd": ["0", "2.4.53", "11.el9_2.5", "x86_64"],
}
MORE = [["kernel", "(none)", "5.14.0", "70.el9", "x86_64"], ["kernel", "(none)", "5.14.0", "162.el9", "x86_64"],
        ["glibc", "(none)", "2.34", "60.el9", "i686"], ["gpg-pubkey", "(none)", "350d275d", "6279464b", "(none)"]]
CONF = {"/etc/yum.repos.d/base.repo": """# the distribution
[baseos]
name=Rocky Linux $releasever - BaseOS
mirrorlist=https://mirrors.rockylinux.org/mirrorlist?arch=$basearch&repo=BaseOS-$releasever
#baseurl=http://dl.rockylinux.org/$contentdir/$releasever/BaseOS/$basearch/os/
gpgcheck=1
enabled=1
gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-Rocky-9

[baseos-debug]
name=Rocky Linux $releasever - BaseOS - Debug
baseurl = http://a.example/debug
    http://b.example/debug
gpgcheck=1
enabled=0
""", "/etc/yum.repos.d/epel.repo": """[epel]
name=Extra Packages for Enterprise Linux 9 - $basearch
metalink=https://mirrors.fedoraproject.org/metalink?repo=epel-9&arch=$basearch
enabled=1
gpgcheck=1
""", "/etc/yum.repos.d/notes.txt": "no\n"}
DIR = ROOT + "/etc/yum.repos.d"
AVAILABLE = """Available Packages
bash.x86_64                    5.1.8-9.el9                 baseos
bash.x86_64                    5.1.8-6.el9_1               baseos
a-package-with-a-name-that-is-rather-long.noarch
                               1:2.0-3.el9                 epel
bind-utils.x86_64              32:9.16.23-14.el9           appstream
glibc.i686                     2.34-83.el9                 baseos
glibc.x86_64                   2.34-83.el9                 baseos
httpd.x86_64                   2.4.57-5.el9                appstream
nginx.x86_64                   1:1.20.1-14.el9             appstream
nginx.x86_64                   1:1.22.1-3.el9              @appstream
tzdata.noarch                  2023c-1.el9                 @System
"""
LOCKS = "Last metadata expiration check: 0:10:11 ago on Mon 01 Jan 2024 10:00:00 AM UTC.\nhttpd-0:2.4.53-11.el9_2.5.*\npython3-libs-0:3.9.16-1.el9.*\n"
YUM_LOCKS = "Loaded plugins: fastestmirror, versionlock\n0:httpd-2.4.53-11.el9_2.5.*\n1:python-libs-2.7.5-90.el7.*\nversionlock list done\n"
GROUP = """Group: Web Server
 Group-Id: web-server
 Description: Allows the system to act as a web server.
 Mandatory Packages:
   httpd
   bash
 Default Packages:
   +nginx
   mod_ssl
 Optional Packages:
   php
 Conditional Packages:
   php-fpm
"""
ENVIRONMENT = """Environment Group: Server
 Environment-Id: server-environment
 Description: An integrated server.
 Mandatory Groups:
   web-server
 Optional Groups:
   @web-server
   unknown-one
"""
GROUP5 = """Id                   : web-server
Name                 : Web Server
Description          : Allows the system to act as a web server.
Installed            : no
Order                :
Langonly             :
Uservisible          : yes
Repositories         : fedora
Mandatory packages   : httpd
                     : bash
Default packages     : nginx
                     : mod_ssl
Optional packages    : php
"""
GROUPS = """Last metadata expiration check
Available Environment Groups:
   Server with GUI
   Minimal Install
Installed Environment Groups:
   Server
Installed Groups:
   Container Management
Available Groups:
   Web Server
   Legacy UNIX Compatibility
Available Language Groups:
   German Support [de]
Done
   not this
"""
GROUPS5 = """ID                        Name                  Installed
web-server                Web Server                   no
container-management      Container Management        yes
"""
PATCHES = """  RLSA-2023:1234 Moderate/Sec.  bash-5.1.8-9.el9.x86_64
i RLSA-2023:0100 bugfix         httpd-2.4.53-11.el9.x86_64
i RLSA-2023:0100 bugfix         httpd-tools-2.4.53-11.el9.x86_64
i RLSA-2023:0200 enhancement    a-1-1.x86_64
  RLSA-2023:0200 enhancement    b-1-1.x86_64
"""
VERIFIED = """S.5....T.  c /etc/httpd/conf/httpd.conf
.M.......    /usr/bin/ping
missing     /usr/share/doc/httpd/ABOUT_APACHE
.....UG..  g /var/log/lastlog
..5....T.  d /usr/share/man/man1/x.1.gz
"""
MODIFIED = "S.5....T.  c /etc/httpd/conf/httpd.conf\n.M.......    /usr/bin/ping\n.......T    /old/rpm\n"
QUERY = """name: bash
relocations: (not relocatable)
version: 5.1.8
vendor: Rocky Enterprise Software Foundation
release: 6.el9_1
build_date_time_t: 1667872800
build_date: 1667872800
install_date_time_t: 1700000000
install_date: 1700000000
build_host: builder.example
group: Unspecified
source_rpm: bash-5.1.8-6.el9_1.src.rpm
size: 7738634
arch: x86_64
license: GPLv3+
signature: RSA/SHA256, Tue Nov  8 02:00:00 2022, Key ID 702d426d350d275d
url: https://www.gnu.org/software/bash
summary: The GNU Bourne Again shell
edition: 5.1.8-6.el9_1
description:
The GNU Bourne Again shell (Bash) is a shell:
or command language interpreter.

It is compatible with sh.
-----
name: kernel
relocations: (not relocatable)
version: 5.14.0
install_date_time_t: (not installed)
install_date: (not installed)
edition: 5.14.0-70.el9
description:
old
-----
name: kernel
version: 5.14.0
install_date: 1700000000
edition: 5.14.0-162.el9
description:
new
-----
"""
FILES = {"bash": "/usr/bin/bash\n/etc/skel/.bashrc", "httpd": "/usr/sbin/httpd\n/etc/httpd"}


class Rocky(Machine):
    program = "dnf"
    fails = None
    locks = LOCKS

    def __init__(self, **more):
        self.__dict__.update(more)

    def changing(self, words):
        verbs = {"install", "downgrade", "reinstall", "upgrade", "update", "remove", "upgrade-minimal", "update-minimal", "clean",
                 "check-update", "copr"}
        # `list` and `group` take names that are no verbs.
        if words[0] != self.program or "list" in words or "group" in words or "updateinfo" in words:
            return False
        return bool(verbs & set(words)) or words[1:3] in (["versionlock", "add"], ["versionlock", "delete"])

    def done(self, words, stage):
        """What a changing command says."""
        if self.fails and self.fails in words:
            return ("Last metadata\n", "Error: Unable to find a match: nothing\n", 1)
        if "check-update" in words:
            return ("\nbash.x86_64 5.1.8-9.el9 baseos\n", "", 100)
        return ("Complete!\n", "", 0)

    def packages(self, stage):
        found = [[name, *rest] for name, rest in INSTALLED.items()] + MORE
        if stage > 0:
            found = [entry for entry in found if entry[0] != "bind-utils"]
            found.append(["nginx", "1", "1.22.1", "3.el9", "x86_64"])
            found[0] = ["bash", "(none)", "5.1.8", "9.el9", "x86_64"]
        return found

    def rpm(self, words, stage):
        if words[1] == "-qa" and MARK in words[-1]:
            lines = [MARK.join([*entry, "(none)", "1700000000"]) for entry in self.packages(stage)]
            return "\n".join(["warning: Converting database", *lines]) + "\n"
        if words[1] == "-qp":
            if "broken" in words[-1]:
                return ("", "error: open of broken.rpm failed", 1)
            name = words[-1].rsplit("/", 1)[1].split("-")[0]
            version = "2.5.0" if name == "httpd" else "5.0" if name == "bash" else "1.0"
            return MARK.join([name, "(none)", version, "1.el9", "x86_64", "none", "(none)"])
        if "--querytags" in words:
            return "ARCH\nLONGSIZE\nNAME\n"
        if words[-2:-1] == ["--queryformat"] and "description" in words[-1]:
            return QUERY
        if "--queryformat" in words and words[-1].startswith("name"):
            return QUERY
        if "-V" in words or ("-Va" in words and "--nofiles" in words):
            return ("", "", 0) if "bash" in words else ("package x is not installed", "", 1) if "x" in words else ("", "error: odd", 1) \
                if "odd" in words else (VERIFIED, "", 1)
        if "-Va" in words:
            return (MODIFIED, "", 1) if "httpd" in words else ("", "", 0) if "bash" in words else ("", "error", 2)
        if "-qf" in words:
            return "bash" if words[-1] == "/bin/bash" else (f"file {words[-1]} is not owned by any package", "", 1)
        if "-ql" in words or "-qla" in words:
            return "\n".join(FILES.get(name, "package x is not installed") for name in words if name in FILES) or FILES["bash"]
        if "-q" in words or "-qa" in words:
            names = [word for word in words[4:]] or ["bash", "httpd"]
            return "".join(f"{name} {INSTALLED[name][1]}\n" if name in INSTALLED else f"package {name} is not installed\n" for name in names)
        if "-K" in words:
            return ("", "", 0 if "good" in words[-1] else 1)
        raise KeyError(words)

    def answer(self, words, stage):
        if words[0] == "rpm":
            return self.rpm(words, stage)
        if self.changing(words):
            return self.done(words, stage)
        if words[1:3] == ["versionlock", "list"]:
            return self.locks
        if "--version" in words:
            return "3.4.3\n  Installed: rpm-4.11.3-45.el7.x86_64\n"
        if "repository-packages" in words:
            repo = words[words.index("repository-packages") + 1]
            lines = [line for line in AVAILABLE.replace("\n     ", " ").splitlines() if line.strip().endswith(repo)]
            return "\n".join(["Available Packages", *lines]) if lines else ("Error: No matching Packages to list", "", 1)
        if "available" in words:
            return ("", "Error: No matching Packages to list", 1) if words[-1] == "nothing" else AVAILABLE
        if "list" in words and ("--upgrades" in words or "updates" in words):
            return "Available Upgrades\nbash.x86_64 5.1.8-9.el9 baseos\nglibc.i686 2.34-83.el9 baseos\n"
        if "grouplist" in words:
            return GROUPS
        if words[1:3] == ["group", "list"]:
            return GROUPS5
        if "groupinfo" in words or "info" in words:
            name = words[-1].lstrip("@")
            if "Server" == name:
                return ENVIRONMENT
            if words[-1].startswith("@"):
                return ("", "error", 1)
            return {"web-server": GROUP5 if self.program == "dnf5" else GROUP, "Web Server": GROUP, "unknown-one": ""}.get(name, "")
        if "updateinfo" in words:
            return PATCHES
        raise KeyError(words)


def add(fun, *args, machine=None, grains=ROCKY, opts=None, files=None, makes=(), crash=False, **kwargs):
    machine = machine or Rocky()

    def patch(module, root):
        module._yum = lambda: machine.program
        module._DNF5_VERSIONLOCK_PATH = root + "/etc/dnf/versionlock.toml"

    CASES.append({
        "provider": "rpm_lowpkg" if fun.startswith("lowpkg") else "yumpkg", "helpers": {"lowpkg": "rpm_lowpkg"}, "fun": fun, "args": list(args),
        "kwargs": kwargs, "opts": {"__manager": machine.program, **(opts or {})}, "grains": grains, "machine": machine,
        "files": files or {}, "makes": list(makes), "patch": patch if not fun.startswith("lowpkg") else lambda module, root: None, "crash": crash,
    })


YUM, FIVE = Rocky(program="yum", locks=YUM_LOCKS), Rocky(program="dnf5")
add("pkg.list_pkgs")
add("pkg.list_pkgs", versions_as_list=True)
add("pkg.list_pkgs", attr="all")
add("pkg.list_pkgs", attr=["arch", "epoch"])
add("pkg.list_pkgs", removed=True)
add("pkg.version", "bash")
add("pkg.version", "bash", "kernel", "x")
add("pkg.version", "kern*", versions_as_list=True)
add("pkg.version_cmp", "1.0-1", "1.0-2")
add("pkg.version_cmp", "2:1.0", "3.0", ignore_epoch=True)
for name in ("zsh.x86_64", "zsh.i686", "zsh.noarch", "python3.11", "zsh"):
    add("pkg.normalize_name", name)
    add("pkg.parse_arch", name)
for machine in (Rocky(), FIVE, YUM):
    add("pkg.latest_version", "bash", machine=machine)
    add("pkg.latest_version", "bash", "nginx", "glibc", "glibc.i686", "tzdata", "nothing", refresh=False, machine=machine)
    add("pkg.latest_version", "nothing", refresh=False, fromrepo="epel", machine=machine)
    add("pkg.available_version", "nginx", refresh=False, machine=machine)
    add("pkg.upgrade_available", "bash", refresh=False, machine=machine)
    add("pkg.upgrade_available", "tzdata", refresh=False, machine=machine)
    add("pkg.list_upgrades", machine=machine)
    add("pkg.list_updates", refresh=False, enablerepo=["a", "b"], setopt="x=1,y=2", machine=machine)
    add("pkg.refresh_db", machine=machine)
    add("pkg.refresh_db", check_update=False, disablerepo="*", enablerepo="epel", machine=machine)
    add("pkg.refresh_db", machine=machine, grains=SEVEN)
    add("pkg.list_repo_pkgs", "bash", fromrepo="baseos,appstream", machine=machine)
    add("pkg.list_repo_pkgs", fromrepo=["appstream", "none"], byrepo=True, cacheonly=True, machine=machine)
    add("pkg.group_list", machine=machine)
    add("pkg.group_info", "Web Server", machine=machine)
    add("pkg.group_info", "web-server", fromrepo="x", machine=machine)
    add("pkg.group_info", "Server", machine=machine)
    add("pkg.group_info", "nope", machine=machine)
    add("pkg.group_diff", "web-server", machine=machine)
    add("pkg.group_install", "web-server", skip="mod_ssl", machine=machine)
    add("pkg.group_install", "web-server", skip=["mod_ssl", "nginx"], machine=machine)
    add("pkg.install", "nginx", machine=machine)
    add("pkg.install", "nginx,mod_ssl", refresh=True, machine=machine)
    add("pkg.install", "nginx", version="1.20.1-14.el9", machine=machine)
    add("pkg.install", "bash", version="5.0-1.el9", machine=machine)
    add("pkg.install", "bind-utils", version="32:9.16.23-11.el9", machine=machine)
    add("pkg.install", pkgs=["nginx", {"bash": "5.1.8-9.el9"}, {"glibc.i686": "2.34-83.el9"}], machine=machine)
    add("pkg.install", "bash", reinstall=True, machine=machine)
    add("pkg.install", pkgs=[{"bash": "5.1.8-6.el9_1"}, "nginx", {"glibc": "9"}], reinstall=True, machine=machine)
    add("pkg.install", "nginx", skip_verify=True, fromrepo="epel", setopt=["obsoletes=0"], machine=machine)
    add("pkg.install", "nginx", version=">=1.21", fromrepo="appstream", machine=machine)
    add("pkg.install", "nginx", version="<1.0", fromrepo="appstream", machine=machine)
    add("pkg.install", "nginx", version="1:1.20*", fromrepo="appstream", machine=machine)
    add("pkg.install", "nginx", version="9*", fromrepo="appstream", machine=machine)
    add("pkg.install", "nginx", version="=1:1.22.1-3.el9", ignore_epoch=True, machine=machine)
    add("pkg.install", "kernel", version="5.0-1", machine=machine)
    add("pkg.install", "httpd", machine=machine)
    add("pkg.install", pkgs=["httpd", "nginx"], machine=machine)
    add("pkg.install", pkgs=["httpd", "nginx"], update_holds=True, machine=machine)
    add("pkg.install", "nginx", machine=Rocky(program=machine.program, locks=machine.locks, fails="nginx"))
    add("pkg.install", sources=[{"httpd": ROOT + "/httpd-2.5.0.rpm"}], machine=machine, files={"/httpd-2.5.0.rpm": "x"})
    add("pkg.install", sources=[{"bash": ROOT + "/bash-5.0.rpm"}, {"new": ROOT + "/new-1.0.rpm"}], machine=machine,
        files={"/bash-5.0.rpm": "x", "/new-1.0.rpm": "x"})
    add("pkg.install", sources=[{"x": ROOT + "/broken-1.rpm"}], machine=machine, files={"/broken-1.rpm": "x"}, crash=True)
    add("pkg.install", "RLSA-2023:1234", advisory_ids=["RLSA-2023:1234"], machine=machine)
    add("pkg.install", "x", advisory_ids=["RLSA-9"], machine=machine)
    add("pkg.install", pkgs=[], machine=machine)
    add("pkg.install", pkgs=["bash", "bash"], machine=machine)
    add("pkg.install", "bash", version="5.1.8-9.el9", diff_attr=["arch"], machine=machine)
    add("pkg.upgrade", machine=machine)
    add("pkg.upgrade", refresh=False, security=True, exclude="kernel*", machine=machine)
    add("pkg.upgrade", "bash", refresh=False, skip_verify=True, minimal=True, machine=machine)
    add("pkg.upgrade", pkgs=["bash", {"glibc": "1"}], refresh=False, obsoletes=False, setopt="obsoletes=1,best=1", machine=machine)
    add("pkg.upgrade", refresh=False, machine=Rocky(program=machine.program, fails="upgrade"))
    add("pkg.update", refresh=False, machine=machine)
    add("pkg.update", refresh=False, minimal=True, diff_attr=["arch"], machine=machine, crash=True)
    add("pkg.remove", "bind-utils", machine=machine)
    add("pkg.remove", "nothing", machine=machine)
    add("pkg.remove", pkgs=["bind*", "kernel"], machine=machine)
    add("pkg.remove", pkgs=[{"kernel": "5.14.0-70.el9"}, {"bash": "9"}, {"bind-utils": "32:9.16.23-11.el9"}], machine=machine)
    add("pkg.remove", pkgs=[{"glibc.i686": "2.34-60.el9"}], machine=machine)
    add("pkg.remove", "bash", machine=Rocky(program=machine.program, fails="remove"))
    add("pkg.purge", "bind-utils", machine=machine)
    locks = {"/etc/dnf/versionlock.toml": 'version = "1.0"\n\n[[packages]]\nname = "httpd"\n[[packages.conditions]]\nkey = "evr"\n'
             'comparator = "="\nvalue = "2.4.53-11.el9_2.5"\n\n[[packages]]\nname = "vim"\n'} if machine.program == "dnf5" else {}
    for grains in (ROCKY, FEDORA, SEVEN):
        add("pkg.list_holds", machine=machine, files=locks, grains=grains)
    add("pkg.list_holds", full=False, machine=machine, files=locks)
    add("pkg.get_locked_packages", full=False, machine=machine, files=locks)
    add("pkg.hold", "bash", machine=machine, files=locks)
    add("pkg.hold", "httpd", machine=machine, files=locks)
    add("pkg.hold", pkgs=["bash", {"glibc": "1"}], machine=machine, files=locks, opts={"test": True})
    add("pkg.hold", sources=[{"bash": "/x"}], machine=Rocky(program=machine.program, locks=machine.locks, fails="bash"), files=locks)
    add("pkg.hold", machine=machine)
    add("pkg.hold", pkgs=["a"], sources=[{"b": "c"}], machine=machine)
    add("pkg.unhold", "httpd", machine=machine, files=locks)
    add("pkg.unhold", "bash", machine=machine, files=locks)
    add("pkg.unhold", pkgs=["httpd", "vim"], machine=machine, files=locks, opts={"test": True})
    add("pkg.unhold", pkgs=["httpd"], machine=Rocky(program=machine.program, locks=machine.locks, fails="versionlock"), files=locks)
    add("pkg.list_patches", machine=machine)
    add("pkg.list_installed_patches", machine=machine)
add("pkg.list_repo_pkgs", "bash", machine=Rocky(program="tdnf"), fromrepo="baseos", crash=True)
for args in ((), ("bash",), ("bash", "kernel")):
    add("pkg.info_installed", *args)
    add("pkg.info_installed", *args, all_versions=True, attr="version,source_rpm,description")
    add("lowpkg.info", *args, attr="version,url")
add("lowpkg.info", "bash", attr="nonsense")
add("pkg.owner", "/bin/bash")
add("pkg.owner", "/bin/bash", "/nowhere")
add("pkg.owner")
add("pkg.file_list", "bash", "httpd")
add("pkg.file_list")
add("pkg.file_dict", "bash", "x", "httpd")
add("pkg.verify", "httpd")
add("pkg.verify", "bash")
add("pkg.verify", "odd")
add("pkg.verify", "httpd", ignore_types=["config", "doc"], verify_options=["nomtime", "nouser"])
add("pkg.verify", "httpd", ignore_types="config, ghost", root="/mnt")
add("pkg.verify", ignore_types=3)
add("pkg.verify", verify_options="nofiles")
add("pkg.modified", "httpd")
add("pkg.modified", "bash")
add("pkg.modified", "x")
add("pkg.modified", "httpd", size=True)
add("pkg.modified", "httpd", mode=False, config=True)
add("lowpkg.list_pkgs")
add("lowpkg.list_pkgs", "bash", "x")
add("lowpkg.list_pkgs", root="/mnt")
add("lowpkg.file_dict")
add("lowpkg.bin_pkg_info", ROOT + "/httpd-2.5.0.rpm", files={"/httpd-2.5.0.rpm": "x"})
add("lowpkg.bin_pkg_info", ROOT + "/broken-1.rpm", files={"/broken-1.rpm": "x"})
add("lowpkg.bin_pkg_info", "/nowhere.rpm")
add("lowpkg.checksum", ROOT + "/good.rpm", ROOT + "/bad.rpm", "/nowhere.rpm", files={"/good.rpm": "x", "/bad.rpm": "x"})
add("lowpkg.checksum")
add("pkg.list_repos", basedir=DIR, files=CONF)
add("pkg.list_repos", basedir=[DIR, "/nowhere"], files=CONF)
add("pkg.get_repo", "epel", basedir=DIR, files=CONF)
add("pkg.get_repo", "baseos", DIR, files=CONF)
add("pkg.get_repo", "nope", basedir=DIR, files=CONF)
add("pkg.get_repo", "copr:a/b", basedir=DIR, files=CONF)
add("pkg.del_repo", "epel", basedir=DIR, files=CONF)
add("pkg.del_repo", "baseos", basedir=DIR, files=CONF)
add("pkg.del_repo", "baseos-debug", basedir=DIR, files=CONF)
add("pkg.del_repo", "nope", basedir=DIR, files=CONF)
M = "pkg.mod_repo"
add(M, "epel", basedir=DIR, files=CONF, enabled=0, gpgcheck=False)
add(M, "epel", basedir=DIR, files=CONF, enabled=True, name="New name", cost="50")
add(M, "epel", basedir=DIR, files=CONF, baseurl="http://x.example/")
add(M, "epel", basedir=DIR, files=CONF, gpgcheck="")
add(M, "epel", basedir=DIR, files=CONF, name="")
add(M, "epel", basedir=DIR, files=CONF, comments=["# one", "two"], priority=None)
add(M, "epel", basedir=DIR, files=CONF, baseurl="http://x", mirrorlist="http://y")
add(M, "baseos", basedir=DIR, files=CONF, enabled=1)
add(M, "baseos-debug", basedir=DIR, files=CONF, baseurl="http://one\nhttp://two", enabled=1)
add(M, "own", basedir=DIR, files=CONF, makes=["/etc/yum.repos.d/own.repo"], name="Own", baseurl="http://own.example/", gpgcheck=1, enabled=True)
add(M, "own", basedir=DIR, files=CONF, makes=["/etc/yum.repos.d/own.repo"], name="Own")
add(M, "own", basedir=DIR, files=CONF, makes=["/etc/yum.repos.d/own.repo"], baseurl="http://own.example/")
add(M, "own", basedir="/nowhere", name="Own", baseurl="http://own.example/")

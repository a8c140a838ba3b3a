"""pacman on Arch."""

from record_programs import Machine

CASES = []


class Arch(Machine):
    fails = None

    def __init__(self, **more):
        self.__dict__.update(more)

    def changing(self, words):
        return words[1] in ("-Sy", "-U", "-Su", "-R", "-Rsc") or (words[1] == "-S" and "-p" not in words)

    def answer(self, words, stage):
        if self.fails and self.fails in words:
            return ("resolving dependencies...\n", "error: target not found: x", 1)
        if words[1] == "-Q":
            lines = ["bash 5.2.026-2", "glibc 2.39-1", "vim 9.1.0-1"] if stage == 0 else ["bash 5.2.026-3", "glibc 2.39-1", "nginx 1.24.0-3"]
            return "\n".join(lines) + "\n"
        if words[1] == "-Sp":
            return "warning: bash-5.2.026-2 is up to date -- skipping\nnginx 1.24.0-3\npcre2 10.43-1\n"
        if words[1] == "-S" and "-p" in words:
            return "downloading core.db...\nbash 5.2.026-3\nlinux 6.7.6.arch1-1\nodd line with words\n"
        if words[1] == "-Sgg" and len(words) == 2:
            return "xorg xorg-server\nxorg xorg-xinit\nbase-devel gcc\nbase-devel make\ngnome gdm\n"
        if words[1] == "-Sgg":
            return "base-devel glibc\nbase-devel make\n"
        if words[1] == "-Qg":
            return "base-devel gcc\nbase-devel make\nxorg xorg-server\nold thing\n"
        if words[1] == "-Sy":
            return ":: Synchronizing package databases...\n core is up to date\n extra.db downloading...\n downloading multilib.db...\n\n"
        if words[1] == "-Ql":
            return "bash /usr/bin/bash\nbash /etc/bash.bashrc\nvim /usr/share/a  b\nerror: package 'nope' was not found\n"
        if words[1] == "-Qqo":
            return "bash\n" if "bash" in words[2] else ("", f"error: No package owns {words[2]}", 1)
        if words[1] == "-Sl":
            return "core bash 5.2.026-2 [installed]\nextra nginx 1.24.0-3\nextra nginx-mainline 1.25.4-1\ntesting nginx 1.26.0-1\nodd\n"
        return "ok\n"


def add(fun, *args, machine=None, files=None, crash=False, **kwargs):
    CASES.append({
        "provider": "pacmanpkg", "fun": "pkg." + fun, "args": list(args), "kwargs": kwargs, "machine": machine or Arch(),
        "grains": {"os": "Arch", "os_family": "Arch"}, "files": files or {}, "crash": crash,
    })


add("list_pkgs")
add("list_pkgs", versions_as_list=True)
add("list_pkgs", removed=True)
add("list_pkgs", root="/mnt")
add("version", "bash")
add("version", "bash", "nope")
for names in (("nginx",), ("bash",), ("nginx", "bash"), ()):
    add("latest_version", *names)
    add("available_version", *names, refresh=True)
add("latest_version", "nginx", root="/mnt")
add("upgrade_available", "nginx")
add("upgrade_available", "bash")
add("list_upgrades")
add("list_upgrades", refresh=True, root="/mnt")
add("list_upgrades", machine=Arch(fails="-p"))
add("refresh_db")
add("refresh_db", root="/mnt")
add("refresh_db", machine=Arch(fails="-Sy"))
add("install", "nginx")
add("install", "nginx,bash", refresh=True, sysupgrade=True)
add("install", "nginx", version="1.24.0-3")
add("install", pkgs=["nginx", {"bash": ">=5.2"}, {"vim": "<10"}])
add("install", pkgs=[{"nginx": "1.24*"}, "bash"])
add("install", pkgs=[{"nginx": "1.24*"}, "bash"], refresh=True)
add("install", "nginx", version="9*")
add("install", "nginx", version=">1*")
add("install", "nginx", machine=Arch(fails="nginx"))
add("install", sources=[{"x": "/@root@/x-1.pkg.tar.zst"}], files={"/x-1.pkg.tar.zst": "x"})
add("install", pkgs=[])
add("upgrade")
add("upgrade", refresh=True, root="/mnt")
add("upgrade", machine=Arch(fails="-Su"))
add("remove", "vim")
add("remove", pkgs=["vim", "nope", {"bash": "1"}])
add("remove", "nope")
add("remove", "vim", machine=Arch(fails="-R"))
add("purge", "vim")
add("file_list", "bash", "vim", "nope")
add("file_dict", "bash", "vim", "nope")
add("owner", "/usr/bin/bash")
add("owner", "/usr/bin/bash", "/nowhere")
add("owner")
add("group_list")
add("group_info", "base-devel")
add("group_diff", "base-devel")
add("list_repo_pkgs")
add("list_repo_pkgs", "nginx*", "bash")
add("list_repo_pkgs", "nginx", fromrepo="extra, testing", byrepo=True)
add("list_repo_pkgs", "nginx", refresh=True)
add("list_repo_pkgs", "nginx", odd=1)

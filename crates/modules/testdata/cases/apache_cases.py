"""The web server Apache. What Debian and SUSE add went out of Salt with 3008: recorded with 3007.17."""

from record_calls import Raise, Said

CASES = []
FAMILIES = ("Debian", "Suse", "RedHat", "Arch")


def add(fun, *args, **more):
    CASES.append({"fun": "apache." + fun, "args": list(args), **more})


VERSION = "Server version: Apache/2.4.62 (Debian)\nServer built:   2024-10-04T15:21:08"
FULL = VERSION + """
Server's Module Magic Number: 20120211:137
Server loaded:  APR 1.7.2, APR-UTIL 1.6.3, PCRE 10.42 2022-12-11
Architecture:   64-bit
Server MPM:     event
  threaded:     yes (fixed thread count)
Server compiled with....
 -D APR_HAS_SENDFILE
 -D DYNAMIC_MODULE_LIMIT=256
 -D HTTPD_ROOT="/etc/apache2"
\t-D  ODD
odd -D line
a: b: c"""
MODULES = """AH00558: apache2: Could not reliably determine the server's fully qualified domain name
Loaded Modules:
 core_module (static)
 so_module (static)

 alias_module (shared)
"""
COMPILED = "Compiled in modules:\n  core.c\n  mod_so.c\n\n  odd\n"
DIRECTIVES = """<Directory (core.c)
\tContainer for directives affecting resources located in the specified directories
\tAllowed in *.conf only outside <Directory>, <Files>, <Location>, or <If>
Listen (event.c)
\tA port number or a numeric IP address and a port number, and an optional protocol
\tAllowed in *.conf only outside <Directory>, <Files>, <Location>, or <If>

Odd
"""
HOSTS = """VirtualHost configuration:
*:80                   is a NameVirtualHost
         default server one.example.org (/etc/apache2/sites-enabled/000-default.conf:1)
         port 80 namevhost one.example.org (/etc/apache2/sites-enabled/000-default.conf:1)
         port 80 namevhost two.example.org (/etc/apache2/sites-enabled/two.conf:1)
                 alias www.two.example.org
*:443                  is a NameVirtualHost
         port 443 namevhost two.example.org (/etc/apache2/sites-enabled/two.conf:9)
10.0.0.1:8080          three.example.org (/etc/apache2/sites-enabled/three.conf:1)

ServerRoot: "/etc/apache2"
User: name="www-data" id=33
"""
for family in FAMILIES:
    grains = {"os_family": family}
    for fun, text in (("version", VERSION), ("fullversion", FULL), ("modules", MODULES), ("servermods", COMPILED),
                      ("directives", DIRECTIVES), ("vhosts", HOSTS)):
        add(fun, says=[("", Said(text))], grains=grains)
for fun in ("version", "fullversion", "modules", "servermods", "directives", "vhosts"):
    for text in ("", "odd", "odd: odder", "\n\n"):
        add(fun, says=[("", Said(text))])
for text in ("port 80 namevhost one (x:1)", "*:80 is a NameVirtualHost\n  port 80", "default server"):
    add("vhosts", says=[("", Said(text))])

add("signal")
for signal in ("start", "stop", "restart", "graceful", "graceful-stop", "configtest", "status", "fullstatus", "odd", ""):
    for said in (Said("up\n"), Said("", 0, " Syntax OK\n"), Said("", 1, "failed"), Said("out", 1), Said(), Said("out", 0, "error")):
        add("signal", signal, says=[("", said)])
add("signal", "restart", says=[("", Raise("no such program"))], grains={"os_family": "RedHat"})

added = {"retcode": 0, "stdout": "", "stderr": "Adding password for user ann", "pid": 1}
add("useradd", "/etc/htpasswd", "ann", "secret", answers={"webutil.useradd": added})
add("useradd", "/etc/htpasswd", "ann", "secret", "ns", answers={"webutil.useradd": added})
add("userdel", "/etc/htpasswd", "ann", answers={"webutil.userdel": ["Deleting password for user ann"]})

HOST = {
    "this": "*:80", "ServerName": ["website.com"], "ServerAlias": ["www.website.com", "dev.website.com"],
    "ErrorLog": "logs/website.com-error_log", "KeepAlive": True, "Timeout": 5, "Nothing": None,
    "Directory": {"this": "/var/www", "Order": "Deny,Allow", "Allow from": ["127.0.0.1", "192.168.100.0/24"],
                  "Options": ["Indexes", "FollowSymlinks"], "AllowOverride": "All"},
}
PARTS = [
    {"this": "*:80"}, {"ServerName": ["website.com"]}, {"DocumentRoot": "/var/www"},
    {"Directory": {"this": "/var/www", "Options": ["Indexes"]}},
    {"Directory": [{"this": "/var/www/private"}, {"Order": "Deny,Allow", "Deny from": "all"}, {"If": {"this": "c", "do": "x"}},
                   {"Else": {"this": "", "do": "y"}}, {"Else": {"this": None, "do": "z"}}, {"Port": 80}]},
]
CONFIGS = (
    [], [{"Listen": "22"}], [{"Listen": "80"}, {"Listen": "443"}], [{"Listen": 80}], [{"Listen": None}], [{"": "text"}],
    [{"Listen": ["80", "443"]}], [{"Listen": [80, "443"]}], [{"VirtualHost": HOST}], [{"VirtualHost": PARTS}],
    [{"VirtualHost": HOST}, {"Include": "x"}], [{"VirtualHost": {"ServerName": "x"}}], [{"A": {"this": "x", "B": {"C": "y"}}}],
    [{"A": [["x"], "y"]}], [{"A": [{"B": "x"}]}], [{"A": "x", "B": "y"}], [{"A": [{"this": "1"}, {"this": "2"}, {"B": "x"}]}],
    [{"A": [{"this": 5, "B": "x"}]}], [{"A": ["this"]}], [{}], ["x"], [{"A": [{"this": "x"}, "y"]}], [{"A": {}}], [{"A": []}],
    "text", [{"A": {"this": ["x", 1], "B": ""}}], [{1: "x"}], [{"A": {"this": {"x": None}, 2: "y"}}],
)
for config in CONFIGS:
    add("config", "{dir}/site.conf", config)
    add("config", "{dir}/site.conf", config, kwargs={"edit": False})
add("config", "{dir}/site.conf", [{"Listen": "22"}], files={"site.conf": "old\n"})
add("config", "{dir}/none/site.conf", [{"Listen": "22"}], kwargs={"edit": False})


def debian(fun, *args, **more):
    add(fun, *args, module="deb_apache", **more)


def suse(fun, *args, **more):
    add(fun, *args, module="suse_apache", grains={"os_family": "Suse"}, **more)


for code in (0, 1, 2, 256):
    says = [("", Said("", code))]
    for kind in ("site", "mod", "conf"):
        debian("a2en" + kind, "name", says=says)
        debian("a2dis" + kind, "name.conf", says=says)
    suse("a2enmod", "name", says=says)
    suse("a2dismod", "name", says=says)
for kind in ("a2enconf", "a2disconf"):
    debian(kind, "name", missing=[kind])
for mod in ("status", "status.load", "status.conf", "sta", "", "none.conf.load"):
    suse("check_mod_enabled", mod, says=[("", Said("actions alias status ssl none.conf"))])
    suse("check_mod_enabled", mod)

"""Records what the real Salt answers, as fixtures for the tests of this crate.

Run with the Python of an installed Salt 3008: `python record.py DIRECTORY`; `master_side_3006.json` is the
`master_side.json` of a 3006. The two differ in engines that 3006 does not know, and 3008 expects nobody for compound
targets without the minion data cache.
"""

import itertools
import json
import os
import random
import re
import sys
import tempfile
import fnmatch
import logging

logging.disable(logging.CRITICAL)
import warnings

warnings.simplefilter("ignore")

import salt.cache
import salt.config
import salt.utils.data
import salt.utils.minions
import salt.utils.stringutils
import salt.loader

OUT = sys.argv[1]
rng = random.Random(7)


def save(name, value):
    with open(os.path.join(OUT, name), "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(x, ensure_ascii=False) for x in value) + "\n]\n")


def globs():
    alphabet = "ab-]![^*?cé\\."
    patterns = {
        "*", "", "a", "[", "[]", "[!]", "[!]a]", "[]a]", "[a-c]", "[c-a]", "[!c-a]", "[a-]", "[-a]", "[a-c-e]", "[a--b]",
        "[^a]", "[[a]", "[a&&b]", "[a||b]", "web[0-9][0-9]", "*.example.com", "web*db*", "?", "??", "[!a]*", "**a**",
        "[\\a]", "a\\*", "[a-b-", "[]-a]", "[--a]", "[!-a]", "[a-cx-z]", "[é-ï]",
    }
    while len(patterns) < 500:
        patterns.add("".join(rng.choice(alphabet) for _ in range(rng.randint(1, 8))))
    texts = ["", "a", "b", "c", "ab", "ba", "abc", "a-b", "-", "]", "!", "^", "[", "é", "web1", "web12", "webdb", "web-db1",
             "x.example.com", "aab", "bba", "a\nb", "\\", "[a", "[]", "[!]", "a*", "cab", "a]", "-]", "Z", "a.b", "&", "|"]
    return [[p, [t for t in texts if fnmatch.fnmatch(t, p)]] for p in sorted(patterns)], texts


def regexes():
    patterns = r"""
(?(2)a|b)(c)
(?P=later)(?P<later>a)
\2(a)
web
web\d+$
^web
.*db
(web|db)\d
(?P<role>web|db)-(?P=role)
(a)\1
(?i)WEB
(?i:WEB)\d
(?s).+
(?m)^b
web(?!1)
web(?=1)
(?<=w)eb
w(?<=w)eb
w(?<!x)eb
\Aweb\Z
web\Z
web$
a|b
[a-c]+$
[^a]+$
[]a]+$
[^]]
[a\]b]
[[a]
[a&&b]
[a--b]
[a~~b]
[a||b]
[\d]+$
[\w-]+$
[\W]
[\s]
[^\S]
[^\S x]
[\S]
\s
\S+$
\x41
\u0041
\U00000041
\101
\0
[\101]
[\b]
a{2}
a{,2}$
a{2,}$
a{2,3}$
a{x}
a{
{
}
]
a{}
a{,}
a{2}{3}
a**
a*+
a++b
a?+a
(?>a+)b
(?>a+)a
*
+a
?
a(
a)
(?
(?P<
(?P<1a>x)
(?P<a-b>x)
(?<n>x)
(?P=x)
(?#comment)web
(?#
(?x) w e b  # comment
(?x)[a b]+$
(?xi) W E B
web(?i)
(?a)\w+$
(?a:\w+)$
(?u)web
(?L)web
(?-i:web)
(?i-s:WEB)
(?i)(?-i:web)
\z
\h
\p{L}
\K
\G
\R
\/
\-
\_
\<
\>
\@
\é
\ 
a b
\.
\\
\
[
[]
[^]
[z-a]
[\d-z]
[a-\d]
[a-]
[-a]
(?(1)a|b)
(a)?(?(1)b|c)
(?P<q>a)?(?(q)b|c)
()
()*
(?:)
(?:a|b)+?c
a+?
a??b
^*
$*
\b*
\bweb\b
\Bweb
we\Bb
é
[é-ï]
\w+$
\d+$
.
.$
..$
a$b
a\nb
a\tb
\n
(?:web|db)[0-9]{1,3}\.example\.com$
web[0-9]+\.(?:foo|bar)\.com
G@os
((((((a))))))
[\n]
[\x41-\x43]
[\u00e9]
\N{LATIN SMALL LETTER A}
(?s:.)$
(?m)a$
(?m:^)web
a|
|a
(|a)b
a{1,1000}
x*
(a|b)*c|d
""".strip("\n").split("\n")
    texts = ["", "web", "web1", "web12", "WEB1", "db", "db-db", "web-web", "web-db", "aa", "a", "b", "ab", "aaa", "aab", "a]",
             "]", "[a", "&", "-", "~", "|", " ", "\t", "\n", "a\n", "web\n", "a\nb", "\x1c", "A", "AB", "\x00", "\x08", "a{x}",
             "a{", "{", "}", "a{}", "é", "éa", "ë", "٣", "a b", "/", "_", "<", ">", "@", ".", "\\", "ac", "c", "abc", "a\tb",
             "web1.example.com", "web1.foo.com", "G@os:x", "d", "w e b", "Ä1", "x", "aaaaaa", "b\na", "\u2028", "a\u2028"]
    rows = []
    for pattern in patterns:
        try:
            compiled = re.compile(pattern)
        except Exception:
            rows.append([pattern, None])
            continue
        rows.append([pattern, [t for t in texts if compiled.match(t)]])
    return rows, texts


TREES = [
    {"os": "Debian", "os_family": "Debian", "num_cpus": 4, "osrelease": "12.5", "empty": {}, "none": None, "yes": True,
     "roles": ["Web", "db", 7, {"deep": {"er": "x"}}, ["in"]], "float": 1.5, "neg": -3, "a:b": "colon", "url": "http://h:80/x",
     "ip": {"eth0": ["10.0.0.1", "fe80::1"], "lo": ["127.0.0.1"]}, 1: "one", True: "never", "2": "two", 3.5: "float key"},
    {"foo": {"bar": {"baz": "Qux", "list": [1, 2, {"k": "v"}]}, "bar:baz": "flat", "5": "text five", 6: "int six"},
     "top": "bar:baz", "x": {"y": {"z": {"w": "deep"}}, "yy": ["a", {"z": "l"}]}, "*": "star", "l": [{"a": 1}, {"a": 2, "b": {"c": "d"}}]},
    {"a": {"b": {"c": {"d": {"e": "f"}}}}, "tab": {"k": [["n"], {"m": ["o"]}]}, "É": "È", "Str": "STRASSE", "null": {None: "n"},
     "bools": [True, False, None], "bool": False},
    {},
]

EXPRS = [
    "os:Debian", "os:debian", "os:deb*", "os:*", "OS:Debian", "os:x", "os", "os:", ":Debian", "num_cpus:4", "num_cpus:[0-9]", "osrelease:12*",
    "empty:*", "empty:", "none:None", "none:*", "none:none", "yes:True", "yes:true", "yes:1", "roles:web", "roles:7", "roles:d*", "roles:deep", "roles:deep:er",
    "roles:deep:er:x", "roles:0:Web", "roles:0", "roles:-1", "roles:-1:*", "roles:3:deep:er:x", "roles:['in']", "float:1.5", "neg:-3", "a:b:colon", "a:b:c*",
    "url:http*", "url:http://h:80/x", "url:http:*", "ip:eth0", "ip:eth0:10.0.0.1", "ip:*", "ip:eth*", "ip:eth*:10*", "ip:*:10*", "ip:*:fe80*", "ip:eth0:fe80::1",
    "1:one", "01:one", "2:two", "3.5:float*", "True:*", "yes :True", "foo:bar:baz:qux", "foo:bar:baz", "foo:bar:*", "foo:*:baz", "foo:*:baz:Qux", "foo:*:flat", "foo:bar:list:1",
    "foo:bar:list:0:1", "foo:bar:list:2:k:v", "foo:bar:list:k:v", "foo:bar:list:k", "foo:5:text*", "foo:6:int*", "foo:6", "top:bar:baz", "top:bar:*", "x:y:z:w:deep", "x:y:z:w", "x:*:z:w",
    "x:*:*:w", "x:*:*:*:deep", "x:*:*", "x:*:l", "x:*:a", "*:star", "*:deep", "*:*:deep", "*:*:*:deep", "*:*:*:*:deep", "*:os", "*:Debian", "*:deb*", "*:*", "*:x", "*:yy:a", "*:yy:z:l",
    "l:a:1", "l:a", "l:b:c:d", "l:b:c", "l:1:a:2", "l:0:a:1", "l:0:*", "l:*:1", "l:*:c:d", "a:b:c:d:e:f", "a:b:c:d:e", "a:b:c:d", "a:*:c:d", "a:*:d", "a:*:*:*:*:f", "tab:k:n", "tab:k:m", "tab:k:m:o",
    "tab:k:1:m:o", "tab:k:0:0:n", "É:è", "é:È", "Str:strasse", "null:*", "null:null:n", "null:~:n", "bools:True", "bools:true", "bools:false", "bools:none", "bool:False", "bool:0", "bool:f*",
    "os:(deb", "os:^d.*n$", "os:D\\w+", "roles:^w", "roles:\\D", "ip:eth[01]", "ip:eth\\d:10\\..*", "foo:bar:ba[a-z]:q.x", "foo:b.r", "*:q.x", "*:*:q.x", "float:\\d\\.\\d", "os:.*", "osrelease:^12\\.", "os:a|debian",
]
PIPES = ["os|Deb*", "ip|eth0|fe80::1", "a:b|colon", "foo|bar|baz|Qux", "foo|bar:baz|flat", "*|os", "*|*", "foo|*:baz", "foo|bar|list|0|1", "x|*:z:w", "url|http://*", "ip|eth0:10.0.0.1", "x|y|z:w", "x|y|z:w:deep", "top|bar:baz"]


def subdict():
    rows = []
    for number, tree in enumerate(TREES):
        for mode in ("glob", "regex", "exact"):
            for delimiter, exprs in ((":", EXPRS), ("|", PIPES)):
                hits = [e for e in exprs if salt.utils.data.subdict_match(
                    tree, e, delimiter=delimiter, regex_match=mode == "regex", exact_match=mode == "exact")]
                rows.append([number, mode, delimiter, hits])
    return rows


MINIONS = {
    "web1": ({"os": "Debian", "roles": ["web"], "ipv4": ["127.0.0.1", "10.0.0.1"], "ipv6": ["::1", "fe80::1"]}, {"env": "prod", "secret": "abc"}),
    "web2": ({"os": "RedHat", "roles": ["web", "db"], "ipv4": ["10.0.1.2"], "ipv6": ["2001:db8::2"]}, {"env": "prod", "secret": "xyz"}),
    "db1": ({"os": "Debian", "roles": ["db"], "ipv4": ["192.168.0.9"], "ipv6": []}, {"env": "dev"}),
    "db2.example.com": ({"os": "Debian"}, {"env": "prod"}),
    "Web3": ({}, {"other": "x"}),
    "bare": None,
}
# With an empty pillar the real matchers look for one elsewhere.
NO_DATA = ({}, {"other": "x"})
STRANGER = ("gone", ({"os": "Debian", "ipv4": ["10.0.0.77"]}, {"env": "prod"}))

GROUPS = {
    "webs": "web1 or web2", "listed": ["web1", "db1"], "text": "web1 db1", "glob": "web*", "nested": "N@webs and G@os:Debian", "deep": "N@nested or db1",
    "loop1": "N@loop2", "loop2": "N@loop1 or web1", "self": "N@self", "paren": "( web1 or db1 ) and not G@os:RedHat", "regex": "web[12]", "listnested": ["N@listed", "or", "web2"],
    "bad": 7, "grain": "G@os:Debian", "spaced": ["G@os:Debian", "and", "web1"], "plain1": "web1", "ofplain": "N@plain1", "ofmissing": "N@nothere or web1", "empty": "", "engine": ["L@web1,web2"], "notgroup": "not N@webs",
    "ints": [1, 2],
}

COMPOUNDS = [
    "*", "web*", "web1", "", " ", "web1 or db1", "web1 and web*", "not web1", "not web*", "* and not web1", "* not web1", "web1 web2", "( web1 or db1 )", "( web1 or db1 ) and G@os:Debian", "( web1 or db1", "web1 or db1 )",
    "web1 or ( db1 and web* )", "not ( web1 or web2 )", "not ( web1 or web2", "not not web1", "not", "and web1", "or", "web1 and", "web1 or", "( )", "( ) or web1", "web1 or ( )", "web1 ( web2 )", "web1 or web2 ( db1 )", "db1 and web2 ( db1 )",
    "( web1 ) ( web2 )", "( and web1 )", "( or web1 )", "( not web1 )", ") web1", "web1 and or web2", "web1 or not web2", "web1 and not web2 or db1", "web1 or web2 and db1", "not web1 and not db1", "not web1 or web1", "G@os:Debian", "G@os:deb*", "P@os:^(Deb|Red)",
    "P@os:(", "G@os", "G|@os|Debian", "I@env:prod", "I@env:p*", "J@env:p.*d$", "J@env:(", "I|@env|prod", "L@web1,db1", "L@web1,nothere", "not L@web1,nothere", "L@web1,nothere or web2", "L@", "L@,", "S@10.0.0.1", "S@10.0.0.0/8", "S@10.0.0.1/8", "S@nonsense", "S@fe80::/10", "S@2001:db8::2",
    "S@192.168.0.0/255.255.255.0", "S@10.0.0.0/0.255.255.255", "E@web\\d", "E@.*", "E@db", "E@web(1|2)", "E@(", "E@^db\\d\\.", "R@%web", "X@web1", "M@web1", "M@web*", "T@ssh", "T@ssh:web1", "web1 or T@ssh", "N@webs", "N@listed", "N@text", "N@nested", "N@deep", "N@loop1", "N@loop2", "N@self", "N@paren", "N@regex", "N@listnested", "N@bad",
    "N@missing", "N@missing or web1", "web1 or N@missing", "not N@webs", "N@webs and G@os:Debian", "N@grain", "N@spaced", "N@ofplain", "N@ofmissing", "N@empty", "N@engine", "N@notgroup", "N@glob and not N@webs", "N@", "G@", "E@", "G@os:Debian and not E@web.* and I@env:dev", "G@roles:web or G@roles:db", "G@roles:web and not G@roles:db",
    "Web3", "web3", "web[0-9]", "[!w]*", "?eb1", "web1,web2", "not G@os:Debian", "( not G@os:Debian ) and *", "web1\tor\tdb1", "( ( web1 ) )", "( ( web1 or db1 ) and ( web* ) )", "G@os:Debian and ( web1 or not ( web* or I@env:dev ) )", "not ( not web1 )", "( not ( web1 ) )", "db2.example.com", "AND", "web1 AND db1",
    "G:@os:Debian", "G@@os@Debian", "GG@osGDebian", "J|@env|^p", "P|@os|^D", "M@", "S@::1", "S@0.0.0.0/0", "S@::/0", "I@secret:a*", "I@secret:abc", "I@secret:*",
]
LISTS = [["web1", "or", "db1"], ["G@os:Debian", "and", "not", "web1"], [], ["web1 or db1"], ["G@os:Deb ian"], ["L@web1,db1"], ["not", "(", "web1", ")"]]


def minion_opts(mid):
    data = MINIONS[mid] or NO_DATA
    opts = salt.config.DEFAULT_MINION_OPTS.copy()
    opts.update(id=mid, grains=data[0], pillar=data[1], nodegroups=GROUPS, extension_modules="", cachedir=tempfile.gettempdir())
    return opts


def minion_side():
    rows = []
    cases = [("compound", c) for c in COMPOUNDS + LISTS]
    cases += [("glob", x) for x in ("*", "web*", "web1", "", "web[12]", ["web1"], None)]
    cases += [("list", x) for x in ("web1", "web1,db1", "web1, db1", ",web1", ["web1", "db1"], [], "", "web", None)]
    cases += [("pcre", x) for x in ("web", "web1$", "", "(", "db.*com", None)]
    cases += [("grain", x) for x in ("os:Debian", "os", "os:*", "roles:web", "roles:*")]
    cases += [("grain_pcre", x) for x in ("os:^d", "os", "os:(", "roles:web|db")]
    cases += [("pillar", x) for x in ("env:prod", "env", "env:p*")]
    cases += [("pillar_pcre", x) for x in ("env:p.*", "env")]
    cases += [("pillar_exact", x) for x in ("env:prod", "env:p*", "env")]
    cases += [("ipcidr", x) for x in ("10.0.0.1", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.5/24", "::1", "fe80::/64", "nope", "", "010.0.0.1", "10.0.0.0/33", "10.0.0.0/", "2001:db8:0:0:0:0:0:2", "10.0.0.0/-1", "10.0.0.0/8/8")]
    loaded = {mid: minion_opts(mid) for mid in MINIONS}
    matchers = salt.loader.matchers(loaded["bare"])
    for kind, target in cases:
        hits = []
        for mid, opts in loaded.items():
            try:
                if matchers[f"{kind}_match.match"](target, opts=opts, minion_id=mid):
                    hits.append(mid)
            except Exception:
                pass
        rows.append([kind, target, hits])
    for group in GROUPS:
        hits = []
        for mid, opts in loaded.items():
            try:
                words = salt.utils.minions.nodegroup_comp(group, GROUPS)
                if matchers["compound_match.match"](words, opts=opts, minion_id=mid):
                    hits.append(mid)
            except Exception:
                pass
        rows.append(["nodegroup", group, hits])
    return rows


def groups():
    rows = []
    for name in list(GROUPS) + ["missing"]:
        try:
            got = salt.utils.minions.nodegroup_comp(name, GROUPS)
        except Exception:
            continue
        rows.append([name, list(got) if got else None])
    return rows


def checker(data_cache=True):
    root = tempfile.mkdtemp()
    with open(root + "/master", "w") as out:
        json.dump({"root_dir": root, "pki_dir": root + "/pki", "cachedir": root + "/cache", "nodegroups": GROUPS, "minion_data_cache": data_cache}, out)
    opts = salt.config.master_config(root + "/master")
    os.makedirs(root + "/pki/minions")
    for mid in MINIONS:
        open(f"{root}/pki/minions/{mid}", "w").write("key")
    cache = salt.cache.factory(opts)
    for mid, data in list(MINIONS.items()) + [STRANGER]:
        if data is not None:
            cache.store("grains", mid, data[0])
            cache.store("pillar", mid, data[1])
            cache.store(f"minions/{mid}", "data", {"grains": data[0], "pillar": data[1]})
    return salt.utils.minions.CkMinions(opts)


MASTER_CASES = (
    [("compound", c) for c in COMPOUNDS + LISTS]
    + [("compound_pillar_exact", c) for c in COMPOUNDS if "I@" in c or "J@" in c or "I|" in c]
    + [("glob", x) for x in ("*", "web*", "web1", "", "nothere", "web[12]")]
    + [("list", x) for x in ("web1", "web1,db1", "db1,web1,none", "web1, db1", ",web1", ["web1", "zz"], [], "", "gone")]
    + [("pcre", x) for x in ("web", "web1$", "", "(", "db.*com")]
    + [("grain", x) for x in ("os:Debian", "os", "os:*", "roles:web", "roles:*")]
    + [("grain_pcre", x) for x in ("os:^d", "os", "os:(", "roles:web|db")]
    + [("pillar", x) for x in ("env:prod", "env", "env:p*")]
    + [("pillar_pcre", x) for x in ("env:p.*", "env")]
    + [("pillar_exact", x) for x in ("env:prod", "env:p*", "env")]
    + [("ipcidr", x) for x in ("10.0.0.1", "10.0.0.0/8", "10.0.0.5/24", "::1", "fe80::/64", "nope", "")]
    + [("nodegroup", g) for g in list(GROUPS) + ["missing"] if g != "ints"]
)


def master_side():
    rows = []
    for data_cache in (True, False):
        ck = checker(data_cache)
        for greedy in (True, False):
            for kind, target in MASTER_CASES:
                if not greedy and kind == "compound" and isinstance(target, str) and "S@" in target:
                    continue
                got = ck.check_minions(target, kind, greedy=greedy)
                rows.append([data_cache, greedy, kind, target, sorted(got["minions"]), got["missing"]])
    return rows


ACLS = [
    [".*"], ["test.ping"], ["test\\..*"], ["("], [{"web*": "test.ping"}], [{"web*": ["test.*", "cmd.run"]}], [{"G@os:Debian": ".*"}], [{"*": ["test.ping"]}], [{"@runner": [".*"]}],
    [{"web1": [{"test.echo": {"args": ["hi"]}}]}], [{"*": [{"test.echo": {"args": [None, "x.*"]}}]}], [{"*": [{"test.arg": {"kwargs": {"name": "al.*"}}}]}], [{"*": [{"test.arg": [{"args": ["a"]}, {"args": ["b"]}]}]}],
    [{"*": [{"test.arg": {"args": ["a"], "kwargs": {"k": None}}}]}], [{"a": 1, "b": 2}], [], [{"web1": ".*"}, {"web2": "test.ping"}], [{"web1 or web2": "test.ping"}], [{"not db*": "test.ping"}], ["test.ping", {"*": ["cmd.run"]}],
    [{"L@web1,web2": "test.ping"}], [{"": "test.ping"}], [{"*": {"test.echo": {"args": ["hi"]}}}],
]
REQUESTS = [
    ("test.ping", [], "web1", "glob"), ("test.ping", [], "web*", "glob"), ("test.ping", [], "*", "glob"), ("test.pingx", [], "web1", "glob"), ("cmd.run", ["ls"], "web1", "glob"), ("test.echo", ["hi"], "web1", "glob"), ("test.echo", ["hi", "xyz"], "web1", "glob"),
    ("test.echo", [], "web1", "glob"), ("test.echo", ["ho", "x"], "db1", "glob"), ("test.arg", ["a", {"__kwarg__": True, "name": "alice", "k": 1}], "web1", "glob"), ("test.arg", ["b", {"__kwarg__": True, "name": "bob"}], "web1", "glob"), ("test.arg", ["a", {"k": 1}], "web1", "glob"),
    ("test.arg", [5], "web1", "glob"), ("test.ping", [], "web1,web2", "list"), ("test.ping", [], "nothere", "glob"), ("test.ping", [], "G@os:Debian", "compound"), ("test.ping", [], "os:Debian", "grain"), ("test.ping", [], "web1 or web2", "compound"),
]


def acls():
    ck = checker()
    rows = []
    for acl in ACLS:
        for fun, args, tgt, kind in REQUESTS:
            try:
                got = bool(ck.auth_check(acl, [fun], [list(args)], tgt, kind))
            except Exception:
                got = False
            rows.append([acl, fun, args, tgt, kind, got])
    return rows


CALL_ACLS = [["@runner"], ["@runners"], ["@wheel"], ["@wheels"], ["@jobs"], ["@key"], [".*"], [{"@jobs": ["list.*"]}], [{"@jobs": "active"}], [{"@runner": ["jobs\\..*"]}], [{"@wheel": ["key.list"]}], [{"@key": [{"accept": {"args": ["web.*"]}}]}], [{"@wheels": [{"key.accept": {"kwargs": {"match": "web.*"}}}]}], [], [{"@jobs": "a", "@x": "b"}]]
CALLS = [("runner", "jobs.active", [], {}), ("runner", "jobs.list_jobs", [], {}), ("runner", "manage.up", [], {}), ("wheel", "key.list", ["acc"], {}), ("wheel", "key.accept", ["web1"], {}), ("wheel", "key.accept", ["db1"], {"match": "web1"}), ("runner", "jobs", [], {}), ("runner", "a.b.c", [], {})]


def calls():
    ck = checker()
    rows = []
    for acl in CALL_ACLS:
        for form, fun, arg, kwarg in CALLS:
            got = ck.spec_check(acl, fun, {"arg": arg, "kwarg": kwarg}, form)
            rows.append([acl, form, fun, arg, kwarg, got if isinstance(got, bool) else "syntax"])
    return rows


def granted():
    ck = checker()
    # The real one hands over user and expression the wrong way round, so that expressions never match.
    original = salt.utils.stringutils.expr_match
    salt.utils.stringutils.expr_match = lambda line, expr: original(expr, line)
    providers = [{"*": ["a"], "fred": ["b"], "fr.*": ["c"], "ops%": ["d"]}, {"*": ["a"]}, {"admin%": ["x"], "fre?": ["y"]}, {}]
    rows = []
    for provider in providers:
        for user in ("fred", "frida", "bob"):
            for grps in ([], ["ops"], ["ops", "admin"]):
                for permissive in (True, False):
                    rows.append([provider, user, grps, permissive, ck.fill_auth_list(provider, user, grps, permissive=permissive)])
    salt.utils.stringutils.expr_match = original
    return rows


def exact():
    ck = checker()
    rows = []
    for tgt, kind in (("env:prod", "pillar"), ("env:p*", "pillar"), ("env:p.*", "pillar_pcre"), ("I@env:prod", "compound"), ("I@env:p*", "compound"), ("I@secret:a* or web1", "compound"), ("I@secret:a*", "compound"), ("web*", "glob"), ("J@env:dev", "compound")):
        rows.append([tgt, kind, bool(ck.auth_check([".*"], ["test.ping"], [[]], tgt, kind, publish_validate=True))])
    return rows


def expressions():
    rows = []
    for text in ("web1", "web12", "fred", "a|b", "b", "", "key\n"):
        for expr in ("web1", "web*", "web\\d", "web\\d+", "fr.d", "a|b", "(", "[", "", ".*", "key", "fred|web1", "(fred|web1)"):
            rows.append([text, expr, salt.utils.stringutils.expr_match(text, expr)])
    return rows


def typed(value):
    """JSON keeps only text keys; others are written as ["type", text]."""
    if isinstance(value, dict):
        return {"map": [[typed(k), typed(v)] for k, v in value.items()]}
    if isinstance(value, list):
        return [typed(v) for v in value]
    return value


rows, texts = globs()
save("globs.json", [texts] + rows)
rows, texts = regexes()
save("regexes.json", [texts] + rows)
save("subdict.json", [[typed(t) for t in TREES], EXPRS, PIPES] + subdict())
facts = {mid: list(data or NO_DATA) for mid, data in MINIONS.items()}
save("minion_side.json", [facts, GROUPS] + minion_side())
save("nodegroups.json", groups())
save("master_side.json", [{**MINIONS, STRANGER[0]: STRANGER[1]}] + master_side())
save("acls.json", acls())
save("calls.json", calls())
save("granted.json", granted())
save("exact.json", exact())
save("expressions.json", expressions())

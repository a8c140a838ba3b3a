"""Records the pillar the real Salt makes of small trees.

Run with the Python of an installed Salt: `python record.py cases.json`.
"""

import json
import logging
import os
import sys
import tempfile

logging.disable(logging.CRITICAL)

import salt.config
import salt.pillar

GRAINS = {"os": "Debian", "roles": ["web", "db"], "ipv4": ["10.0.0.1"], "site": {"city": "Oslo"}}
GROUPS = {"webs": "G@roles:web", "others": "not G@roles:web", "nested": "N@webs and web*"}

TOP_ALL = "base:\n  '*':\n    - one\n    - two\n"
ONE = "a: 1\nshared:\n  x: one\n  list: [1, 2]\n  only_one: true\n"
TWO = "b: 2\nshared:\n  x: two\n  list: [2, 3]\n  only_two: true\n"
BASIC = {"base/top.sls": TOP_ALL, "base/one.sls": ONE, "base/two.sls": TWO}


def top(*lines):
    return "\n".join(lines) + "\n"


CASES = []


def case(name, tree, config=None, **request):
    CASES.append([name, tree, config or {}, request])


case("plain", BASIC)
case("no top", {"base/one.sls": ONE})
case("no directory", {})
for strategy in ("smart", "recurse", "aggregate", "overwrite", "list", "none", "unknown"):
    for lists in (False, True):
        case(f"strategy {strategy} {lists}", BASIC, {"pillar_source_merging_strategy": strategy, "pillar_merge_lists": lists})
case("renderer yamlex", {}, {"renderer": "jinja|yamlex"})
MATCH = {
    "base/top.sls": top(
        "base:", "  'web1': [id]", "  'web*': [glob]", "  'nobody': [never]", "  'G@os:Debian': [grain]", "  'G@os:Deb* and not web2': [compound]", "  'os:Debian': [{match: grain}, gm]", "  'os:^D': [{match: grain_pcre}, gp]",
        "  'web\\d': [{match: pcre}, pcre]", "  'web1,web2': [{match: list}, list]", "  'webs': [{match: nodegroup}, ng]", "  'nested': [{match: nodegroup}, nested]", "  'others': [{match: nodegroup}, never]", "  'N@webs': [ngc]", "  '10.0.0.0/8': [{match: ipcidr}, net]", "  '10.0.0.1': [{match: ipcidr}, addr]",
        "  'a:1': [{match: pillar}, pil]", "  'I@a:1': [pilc]", "  'roles:web': [{match: grain}, role]", "  'site:city:Oslo': [{match: grain}, city]", "  'not web1': [never]", "  'web1 or': [never]", "  'E@we.*1': [ecomp]", "  'L@web1': [lcomp]", "  'web?': [{match: glob}, globm]",
    )
}
for name in "id glob never grain compound gm gp pcre list ng nested ngc net addr pil pilc role city ecomp lcomp globm".split():
    MATCH[f"base/{name}.sls"] = f"{name}: yes\n"
case("matchers", MATCH)
case("matchers with override", MATCH, pillar_override={"a": 1})
case("order", {"base/top.sls": top("base:", "  '*':", "    - order: 3", "    - three", "  'web*':", "    - two", "    - order: 2", "  'web1':", "    - one", "    - order: '1'", "  'G@os:Debian':", "    - zero", "  '*1': [{order: junk}, junk]"), **{f"base/{n}.sls": f"last: {n}\n{n}: 1\n" for n in ("zero", "one", "two", "three", "junk")}})
case("ignore missing", {"base/top.sls": top("base:", "  '*':", "    - ignore_missing: true", "    - gone", "    - one"), "base/one.sls": ONE})
case("missing", {"base/top.sls": top("base:", "  '*':", "    - gone", "    - one"), "base/one.sls": ONE})
case("nothing in the tree but a top", {"base/top.sls": TOP_ALL})
INCLUDES = {
    "base/top.sls": top("base:", "  '*': [main]"),
    "base/main.sls": top("include:", "  - one", "  - pkg", "  - two:", "      key: deep:er", "      defaults: {x: 1}", "main: 1", "shared: {x: main}"),
    "base/one.sls": ONE,
    "base/two.sls": TWO,
    "base/pkg/init.sls": top("include: [.sub, pkg.other]", "pkg: 1", "shared: {pkg: true}"),
    "base/pkg/sub.sls": top("include: [.other]", "sub: 1"),
    "base/pkg/other.sls": top("other: 1", "shared: {other: [9]}"),
    "base/sub.sls": "rootsub: 1\n",
}
case("includes", INCLUDES)
case("includes override", INCLUDES, {"pillar_includes_override_sls": True})
case("includes with lists", INCLUDES, {"pillar_merge_lists": True})
case("includes aggregate", INCLUDES, {"pillar_source_merging_strategy": "aggregate"})
case("include loop", {"base/top.sls": top("base:", "  '*': [x]"), "base/x.sls": "include: [y]\nx: 1\nv: x\n", "base/y.sls": "include: [x]\ny: 1\nv: y\n"})
case("include globs", {"base/top.sls": top("base:", "  '*': [x]"), "base/x.sls": "include: ['p.*', 'q/r']\nx: 1\n", "base/p/a.sls": "a: 1\nv: a\n", "base/p/b.sls": "b: 1\nv: b\n", "base/p/init.sls": "init: 1\n", "base/q/r.sls": "r: 1\n"})
case("include missing", {"base/top.sls": top("base:", "  '*': [x, one]"), "base/x.sls": "include: [gone, .gone, one]\nx: 1\n", "base/one.sls": ONE})
case("include no list", {"base/top.sls": top("base:", "  '*': [x]"), "base/x.sls": "include: one\nx: 1\n", "base/one.sls": ONE})
case("include twice", {"base/top.sls": top("base:", "  '*': [x, y]"), "base/x.sls": "include: [one]\nx: 1\n", "base/y.sls": "include: [one, x]\na: y\n", "base/one.sls": ONE})
case("include errors repeat", {"base/top.sls": top("base:", "  '*': [x]"), "base/x.sls": "include: [one, bad, one]\nx: 1\n", "base/one.sls": ONE, "base/bad.sls": "a: b: c\n"})
case("include empty", {"base/top.sls": top("base:", "  '*': [x]"), "base/x.sls": "include: [e]\nx: 1\n", "base/e.sls": "\n"})
case("include below key", {"base/top.sls": top("base:", "  '*': [x]"), "base/x.sls": "include:\n  - y: {key: a}\n  - y: {key: b}\na: {own: 1}\n", "base/y.sls": "y: 1\n"})
case("globs in top", {"base/top.sls": top("base:", "  '*': ['p.*', 'o?e', 'none*']"), "base/p/a.sls": "a: 1\n", "base/p/b/init.sls": "b: 1\n", "base/p/b/c.sls": "c: 1\n", "base/one.sls": ONE})
case("slashes", {"base/top.sls": top("base:", "  '*': [p/a, p.b]"), "base/p/a.sls": "a: 1\n", "base/p/b/init.sls": "b: 1\n"})
case("sls before init", {"base/top.sls": top("base:", "  '*': [p]"), "base/p.sls": "from: sls\n", "base/p/init.sls": "from: init\n"})
case("dots in names", {"base/top.sls": top("base:", "  '*': [a.b]"), "base/a.b.sls": "x: 1\n"})
ENVS = {
    "base/top.sls": top("base:", "  '*': [one]", "dev:", "  '*': [d]", "lost:", "  '*': [one]"),
    "base/one.sls": ONE,
    "dev/top.sls": top("dev:", "  'web*': [e]", "base:", "  'web1': [two]"),
    "dev/d.sls": "d: 1\nshared: {x: dev}\n",
    "dev/e.sls": "e: 1\na: dev\n",
    "base/two.sls": TWO,
}
TWO_ROOTS = {"pillar_roots": {"base": ["base"], "dev": ["dev"]}}
case("environments", ENVS, TWO_ROOTS)
case("environments order", ENVS, {**TWO_ROOTS, "env_order": ["dev", "base"]})
case("environments none", ENVS, {**TWO_ROOTS, "pillar_source_merging_strategy": "none"})
case("environments none dev", ENVS, {**TWO_ROOTS, "pillar_source_merging_strategy": "none"}, saltenv="dev")
case("pillarenv asked", ENVS, TWO_ROOTS, pillarenv="dev")
case("pillarenv asked base", ENVS, TWO_ROOTS, pillarenv="base")
case("pillarenv unknown", ENVS, TWO_ROOTS, pillarenv="nope")
case("pillarenv configured", ENVS, {**TWO_ROOTS, "pillarenv": "dev"})
case("pillarenv from saltenv", ENVS, {**TWO_ROOTS, "pillarenv_from_saltenv": True}, saltenv="dev")
case("pillarenv from saltenv but asked", ENVS, {**TWO_ROOTS, "pillarenv_from_saltenv": True}, saltenv="dev", pillarenv="base")
case("saltenv alone", ENVS, TWO_ROOTS, saltenv="dev")
ANY = {"any/stage/top.sls": top("stage:", "  '*': [s]"), "any/stage/s.sls": "s: 1\n", "base/top.sls": TOP_ALL, "base/one.sls": ONE, "base/two.sls": TWO}
ANY_ROOTS = {"pillar_roots": {"base": ["base"], "__env__": ["any/__env__"]}}
case("any env pillarenv", ANY, ANY_ROOTS, pillarenv="stage")
case("any env saltenv", ANY, ANY_ROOTS, saltenv="stage")
case("any env none", ANY, ANY_ROOTS)
case("any env only", {"any/base/top.sls": top("base:", "  '*': [s]"), "any/base/s.sls": "s: 1\n"}, {"pillar_roots": {"__env__": ["any/__env__"]}})
case("several directories", {"base/top.sls": TOP_ALL, "base/one.sls": ONE, "more/one.sls": "a: more\n", "more/two.sls": TWO}, {"pillar_roots": {"base": ["base", "more"]}})
case("override", BASIC, pillar_override={"a": "mine", "shared": {"x": "mine", "list": [9]}, "new": {"k": 1}})
case("override lists", BASIC, {"pillar_merge_lists": True}, pillar_override={"shared": {"list": [9, 1]}})
case("override nothing", {"base/top.sls": "base: {}\n"}, pillar_override={"a": 1})
case("override with errors", {"base/top.sls": top("base:", "  '*': [gone]")}, pillar_override={"a": 1})
BAD = {"base/top.sls": top("base:", "  '*': [bad, one]"), "base/one.sls": ONE}
for number, text in enumerate(["a: b: c\n", "a: [1, 2\n", "\ta: 1\n", "a:\n\t- b\n", "a: 1\na: 2\n", "- a\n- b\n", "just text\n", "# nothing\n", "", "   \n", "a: *nowhere\n", "a: 'open\n", "{a: 1}: 2\n", "a: !unknown 1\n", "42\n", "[]\n", "{}\n", "a: {b: c: d}\n", "%bad\n"]):
    case(f"bad {number} safe", {**BAD, "base/bad.sls": text})
    case(f"bad {number} open", {**BAD, "base/bad.sls": text}, {"pillar_safe_render_error": False})
for number, text in enumerate(["base: {'*': one}\n", "base:\n", "base: {'*': {one: 1}}\n", "base: {}\n", "# nothing\n", "", "a: b: c\n", "base: {'*': []}\n", "base: {'*': [one, one]}\n", "base: {'*': [one, {match: glob}]}\nbase2: []\n", "base: {1: [one]}\n", "base: {'*': [1]}\n", "base: {'*': [{order: null}, one]}\n"]):
    case(f"top {number}", {"base/top.sls": text, "base/one.sls": ONE, "base/o.sls": "o: 1\n"})
case("top include", {"base/top.sls": "include: [extra.top, none.top]\nbase: {'*': [one]}\n", "base/extra/top.sls": "base: {'web*': [two], '*': [two]}\n", "base/one.sls": ONE, "base/two.sls": TWO})
case("top include bad", {"base/top.sls": "include: [extra]\nbase: {'*': [one]}\n", "base/extra.sls": "a: b: c\n", "base/one.sls": ONE})
case("two tops one target", {**ENVS, "dev/top.sls": top("base:", "  '*': [two]")}, TWO_ROOTS)
case("state_top", {"base/other.sls": TOP_ALL, "base/one.sls": ONE, "base/two.sls": TWO}, {"state_top": "other.sls"})
TEMPLATES = {
    "base/top.sls": "base:\n  '*':\n    - one\n{% if grains.os == 'Debian' %}\n    - deb\n{% endif %}\n{% for role in grains.roles %}\n    - roles.{{ role }}\n{% endfor %}\n",
    "base/one.sls": "{% set x = [1, 2] %}{% do x.append(3) %}\nx: {{ x }}\nid: {{ opts.id }} {{ opts['minion_id'] }}\nos: {{ grains['os'] }}\nsaltenv: {{ saltenv }}\nsls: {{ sls }} {{ slspath }} {{ tpldir }} {{ tplfile }}\n",
    "base/deb.sls": "{% from 'lib/map.jinja' import settings with context %}\nsettings: {{ settings | yaml }}\njson: {{ settings | json }}\n",
    "base/lib/map.jinja": "{% import_yaml 'lib/defaults.yaml' as defaults %}{% set settings = defaults[grains.os] %}{% do settings.update({'city': grains.site.city}) %}",
    "base/lib/defaults.yaml": "Debian: {pkg: apache2, port: 80}\nRedHat: {pkg: httpd}\n",
    "base/roles/web.sls": "#!jinja|yaml\nweb: {{ pillar.get('a', 'none') }} {{ pillar | length }}\n",
    "base/roles/db/init.sls": "{% macro entry(n) %}entry{{ n }}{% endmacro %}\n{% for n in range(3) %}\n{{ entry(n) }}: {{ n * 2 }}\n{% endfor %}\nwhere: {{ tpldir }} {{ slsdotpath }} {{ tplfile }}\n",
}
case("templates", TEMPLATES)
case("templates with override", TEMPLATES, pillar_override={"a": "mine"})
case("templates external first", TEMPLATES, {"ext_pillar_first": True}, pillar_override={"a": "mine"})
case("templates with blocks trimmed", TEMPLATES, {"jinja_sls_env": {"trim_blocks": True, "lstrip_blocks": True}})
DEFAULTS = {
    "base/top.sls": top("base:", "  '*': [main]"),
    "base/main.sls": "include:\n  - users:\n      defaults: {user: ann, uid: 7}\n      key: accounts:ann\n  - groups\n  - more: {key: more}\nname: main\n",
    "base/users.sls": "user: {{ user }}\nuid: {{ uid }}\n",
    "base/groups.sls": "group: {{ user | default('nobody') }}\n",
    "base/more.sls": "text: {{ user | default('nobody') }}\n",
}
case("include with defaults", DEFAULTS)
for number, text in enumerate(["{{ nothing }}\n", "a: 1\n{% if %}\n", "a: {{ 1 / 0 }}\n", "{% from 'gone.jinja' import x %}\n", "a: {{ [1 }}\n", "#!json\n{\"a\": [1]}\n", "#!json\n{\n", "#!jinja|json\n{\"a\": \"{{ grains.os }}\"}\n", "#!yaml\na: '{{ x }}'\n", "{# note #}\n", "{% set x = 1 %}\n", "#!unheard\na: 1\n", "a: {{ {'b': 'c'} }}\n", "a: {{ 'x' * 3 }}\nb: {{ none }}\n", "#jinja2: {\"variable_start_string\": \"<<\", \"variable_end_string\": \">>\"}\na: << 1 + 1 >>\n", "a: {{ grains.nope }}\n", "a: {{ pillar.nope }}\n"]):
    case(f"template {number} safe", {**BAD, "base/bad.sls": text})
    if number not in (2, 3, 16):
        # Texts with tracebacks of Python, or names of its classes, are not compared.
        case(f"template {number} open", {**BAD, "base/bad.sls": text}, {"pillar_safe_render_error": False})
case("template in top that fails", {"base/top.sls": "{{ nothing }}\nbase: {'*': [one]}\n", "base/one.sls": ONE})
case("command that prints json", BASIC, {"ext_pillar": [{"cmd_json": "echo {\\\"id\\\": \\\"%s\\\", \\\"a\\\": 5}"}]})
case("command that prints yaml", BASIC, {"ext_pillar": [{"cmd_yaml": "printf 'id: %s\\nshared: {x: three}\\n'"}]})
case("command that prints nonsense", BASIC, {"ext_pillar": [{"cmd_yaml": "echo 'a: [1'"}, {"cmd_json": "echo x"}]})
case("command first", BASIC, {"ext_pillar": [{"cmd_yaml": "echo 'a: external'"}], "ext_pillar_first": True})
case("command excluded", BASIC, {"ext_pillar": [{"cmd_yaml": "echo 'a: external'"}], "exclude_ext_pillar": ["cmd_yaml"]})
case("external unknown", BASIC, {"ext_pillar": [{"no_such": "x"}]})
case("external malformed", BASIC, {"ext_pillar": ["cmd_yaml"]})
case("external with wrong arguments", BASIC, {"ext_pillar": [{"cmd_yaml": {"nope": 1}}]})
case("decrypt nothing", BASIC, {"decrypt_pillar": ["shared:x", "gone"]})
case("decrypt with unknown", BASIC, {"decrypt_pillar": [{"shared:x": "nope"}]})
case("decrypt malformed", BASIC, {"decrypt_pillar": "nonsense"})
case("ext_pillar_first", BASIC, {"ext_pillar_first": True}, pillar_override={"a": "mine"})
case("types", {"base/top.sls": top("base:", "  '*': [t]"), "base/t.sls": "i: 010\nf: 1.5\nb: yes\nn: ~\nd: 2001-01-01\n1: one\ntrue: t\nm: |\n  x\n  y\n"})
case("shebang yaml", {"base/top.sls": top("base:", "  '*': [t]"), "base/t.sls": "#!yaml\nt: '{{ x }}'\n"})


def run(tree, config, request):
    root = os.path.realpath(tempfile.mkdtemp())
    for path, content in tree.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as out:
            out.write(content)
    options = {"root_dir": root, "cachedir": root + "/cache", "pki_dir": root + "/pki", "nodegroups": GROUPS, "pillar_roots": {"base": ["base"]}, **config}
    options["pillar_roots"] = {env: [os.path.join(root, d) for d in dirs] for env, dirs in options["pillar_roots"].items()}
    with open(root + "/master", "w") as out:
        json.dump(options, out)
    opts = salt.config.master_config(root + "/master")
    try:
        pillar = salt.pillar.Pillar(opts, dict(GRAINS), "web1", request.get("saltenv"), pillar_override=request.get("pillar_override"), pillarenv=request.get("pillarenv"))
        return plain(pillar.compile_pillar(), root)
    except Exception as exc:
        return {"__failed__": type(exc).__name__}


def plain(value, root):
    if isinstance(value, dict):
        return {"map": [[plain(k, root), plain(v, root)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        return [plain(v, root) for v in value]
    return value.replace(root, "ROOT") if isinstance(value, str) else value


with open(sys.argv[1], "w") as out:
    json.dump({"grains": GRAINS, "nodegroups": GROUPS, "cases": [[*c, run(*c[1:])] for c in CASES]}, out, separators=(",", ":"))

"""Writes load.jsonl, dump.jsonl and args.jsonl: what the real Salt makes of many texts and values.

Run with the Python of a Salt installation, in this directory.
"""

import json
import random

import salt.utils.args
import salt.utils.yaml
import yaml

RANDOM = random.Random(20260501)

SNIPPETS = r'''
===
===
# only a comment
===
a: 1
===
- a
- b: 2
===
master: 10.0.0.1
user: root
ret_port: 4506
===
master:
  - salt1
  - salt2:4510
  - "[::1]:4506"
===
file_roots:
  base:
    - /srv/salt
  dev: [/srv/dev, /srv/salt]
===
mode: 0644
a: 0777
b: 00
c: 0
d: -0644
e: +0644
===
x: 0x1F
y: 0b101
z: 1_000
s: 190:20:30
f: 190:20:30.15
===
a: 1.5
b: 1e3
c: 1.0e+3
d: .5
e: -.5
f: .inf
g: -.INF
h: .nan
i: 1.
j: 1_0.5_0
===
t: 2001-12-14
u: 2001-12-14t21:59:43.10-05:00
v: 2001-12-14 21:59:43.10 -5
===
yes: no
on: off
Y: n
True: FALSE
===
a: ~
b: null
c:
d: Null
e: ""
~: x
===
a: 1
a: 2
===
top:
  '*':
    - common
  '*':
    - other
===
1: a
true: b
===
1: a
1.0: b
===
base: &base {a: 1, b: 2}
child:
  <<: *base
  b: 3
===
one: &one {a: 1}
two: &two {b: 2}
three: {<<: [*one, *two], c: 3}
===
one: &one {a: 1, x: 1}
two: &two {b: 2, x: 2}
three: {<<: [*one, *two], c: 3}
===
a: {<<: 1}
===
a: {<<: [1]}
===
a: {<<: [[1]]}
===
a: &a {<<: *a, b: 1}
===
a: &x [1, 2]
b: *x
===
a: *nothing
===
a: &x 1
b: &x 2
===
a: &a [*a]
===
a: &a {b: *a}
===
- !!binary aGVsbG8=
- !!binary aGVsbG8
- !!binary a1b2c3
- !!binary |
   R0lGODlhDAAMAIQAAP//9/X17unp5WZmZgAAAOfn515eXvPz7Y6OjuDg4J+fn5
- !!binary "a"
===
!!binary é
===
!!binary "ab=c"
===
!!binary "=="
===
!!binary "a==="
===
!!python/unicode abc
===
!!python/object/apply:os.system [ls]
===
!!python/tuple [a]
===
!foo bar
===
! 12
===
! [a]
===
!!str 12
===
!!int "12"
===
!!int abc
===
!!int 012
===
!!int ""
===
!!float 12
===
!!float abc
===
!!bool maybe
===
!!bool "yes"
===
!!null abc
===
!!null [a]
===
!!str [a]
===
!!str {=: x}
===
!!seq {a: b}
===
!!map [a]
===
!!set {a, b}
===
!!set [a]
===
!!omap [a: 1, b: 2]
===
!!omap [a, b]
===
!!omap {a: 1}
===
!!omap [{a: 1, b: 2}]
===
!!pairs [a: 1, a: 2]
===
!!pairs x
===
!!timestamp 2001-12-14
===
!!timestamp abc
===
=: a
===
a: =
===
<<: 1
===
<<: {a: 1}
===
a: <<
===
{{ foo }}: bar
===
foo: {{ bar }}
===
foo: {{ bar }}/baz
===
? [a, b]
: c
===
? {a: b}
: c
===
? - a
  - b: 1
: c
===
[a, b]: c
===
{% if x %}
a: b
{% endif %}
===
a: b: c
===
a:
	- tab
===
	a: b
===
a: "unclosed
===
a: 'unclosed
===
a: "bad \q escape"
===
a: "\x4"
===
a: "\u00e9\n\t\x41\U0001F600"
===
a: 'it''s'
===
a: |
  line1
   line2

b: >
  folded
  text

  more
===
a: |-
  x
b: |+
  y

c: >-
  z
===
a: |2
    x
===
a: |
===
a: > # comment
  x
===
- - a
  - b
- - c
===
a:
- b
- c
===
a:
  - b
 - c
===
a:
  b: 1
 c: 2
===
a: [1, 2
===
a: {b: 1
===
a: [1, 2]]
===
a: }
===
a: ]
===
a: @x
===
a: `x`
===
a: %x
===
%YAML 1.1
---
a: b
===
%YAML 2.0
---
a: b
===
%TAG ! tag:x,2000:
---
!foo a
===
---
a
---
b
===
---
...
===
...
===
--- a
===
a
...
===
a
...
b
===
a: 'x' y
===
a:b
===
a :b
===
a : b
===
"a": b
===
"a" : b
===
? a
===
: b
===
- ? a
  : b
===
- : b
===
a: &anchor
===
a: !!str
===
a: !!int
===
&a a: b
===
*a : b
===
a: "multi
  line

  text"
===
a: plain
  continued
  text
===
a: plain # comment
b: not#comment
===
a: http://x:80/y
===
a: x,y
b: [x,y, z ,]
c: {a, b: , c: 1,}
===
a: ? b
===
a: - b
===
- a: 1
  b: 2
-
  c: 3
-
===
a: {b: {c: {d: {}}}}
===
a: []
b: {}
===
[]
===
{}
===
""
===
12345678901234567890
===
-12345678901234567890123
===
0x1234567890abcdef1234567890
===
20240101120000123456
===
é: ü
日本: 語
===
emoji: 😀
===
a: "😀"
===
a:  x
===
a: b\x
===
'a' : "b"
c: 'd'
===
{"json": [1, 2.5, true, null, "x"], "y": {"z": "\/"}}
===
{a: 1, a: 2}
===
[a, [b, [c]], {d: [e]}]
===
pkg.installed:
  - name: vim
  - require:
    - file: /etc/x
===
state_id:
  file.managed:
    - mode: '0644'
    - contents: |
        line
        other
===
schedule: {job1: {function: test.ping, seconds: 3600}}
===
nodegroups:
  group1: 'L@foo.domain.com,bar.domain.com'
  group2: 'G@os:Debian and foo.domain.com'
  group3: 'G@os:Debian and N@group1'
  group4:
    - 'G@foo:bar'
    - 'or'
    - 'G@foo:baz'
===
external_auth:
  pam:
    fred:
      - test.*
      - 'web*':
        - pkg.*
===
log_granular_levels: {'salt': warning}
log_fmt_console: '[%(levelname)-8s] %(message)s'
===
id: 007
===
id: 1234
===
id: web1.example.com
===
a: "\
  x"
===
a: 'x
===
a: 1 2
===
- a
b: c
===
a: b
- c
===
a: !!python/unicode [x]
===
? |
  block
: x
===
a: 1:
===
a: ::
===
:a: b
===
"a
b": c
===
"a
b: c
===
a: "\ud83d"
===
x: &a.b 1
y: *a.b
===
x: [a: b, c]
===
x: [? a : b]
===
x: {? a : b}
===
x: [a
b]
===
x: {a: b
}
===
x: [
a
]
'''


def snippets():
    return [text.removeprefix("\n") for text in SNIPPETS.removesuffix("\n").split("\n===")][1:]


def plain(value, depth=0):
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def load(text):
    try:
        value = salt.utils.yaml.safe_load(text)
    except yaml.YAMLError as error:
        return {"error": str(error)}
    except Exception as error:  # what Python itself says
        return {"python": str(error)}
    try:
        if isinstance(value, set):
            return {"set": sorted(map(repr, value))}
        return {"value": repr(plain(value))}
    except RecursionError:
        return {"recursive": True}


def mutate(text):
    letters = list(text)
    alphabet = " :-\n\t[]{},#'\"&*!|>%@`?=<~0123456789abnoyx._\\+/é\u0085\u2028\x01\ufeff😀"
    for _ in range(RANDOM.choice([1, 1, 1, 2, 3])):
        place = RANDOM.randrange(len(letters) + 1)
        kind = RANDOM.randrange(4)
        if kind == 0 and letters:
            del letters[min(place, len(letters) - 1)]
        elif kind == 1 and letters:
            letters[min(place, len(letters) - 1)] = RANDOM.choice(alphabet)
        elif kind == 2:
            letters.insert(place, RANDOM.choice(alphabet))
        else:
            letters = letters[:place]
    return "".join(letters)


def write(name, rows):
    with open(name, "w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row) + "\n")


def load_rows():
    texts = snippets()
    known = set(texts)
    base = list(texts)
    while len(texts) < len(base) + 2500:
        text = mutate(RANDOM.choice(base))
        if text not in known:
            known.add(text)
            texts.append(text)
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            continue
        row = load(text)
        # A tag of Python's on a list hands out PyYAML's own node objects; ours refuses that.
        if "Node(tag=" not in row.get("value", ""):
            yield {"in": text} | row


def scalar():
    pool = [
        None, True, False, 0, 1, -1, 644, 10**20, 1.0, 0.1, 1e16, 1e300, -2.5, float("inf"), "", "a", "yes", "no", "on",
        "null", "~", "1", "01", "1.5", "0x1f", "1e3", "2001-01-01", "a b", " a", "a ", "a: b", "a #b", "#a", "- a", "-",
        "?", ":", "a:", "[a", "{a", "*a", "&a", "!a", "%a", "@a", "`a", "'a'", '"a"', "it's", "a\nb", "a\n", "\na", "a\n\nb\n",
        "a\tb", "\x00", "\x07", "\x1b[0m", "é", "日本", "😀", "x😀 y", "\u2028", "\ufeff", "\x85", "=", "<<", "a" * 100,
        "word " * 40, ("word " * 40).strip(), "a\\b", "...", "---", "--- a", "\r", "a\r\nb", "C:\\x", ",", "a,b", "190:20:30",
        b"", b"abc", b"\x00\xff" * 60, "TRUE", "nUll", "k" * 130, "k" * 127 + "é", "multi\n  line\n text", "tab\tend\t", "é" * 90,
        ("é 😀 " * 30).strip(), "=a", ">x", "|x", "%", "#", "a'b\"c", "\u00a0", "trailing\\", "0b1", "1_000", ".5", "\x01\x02", "\ufffe\x01",
    ]
    return RANDOM.choice(pool)


def tree(depth):
    kind = RANDOM.random()
    if depth == 0 or kind < 0.45:
        return scalar()
    if kind < 0.7:
        return [tree(depth - 1) for _ in range(RANDOM.randrange(5))]
    keys = [scalar() for _ in range(RANDOM.randrange(5))]
    if RANDOM.random() < 0.7:
        keys = [key if isinstance(key, str) else repr(key) for key in keys]
    return {key: tree(depth - 1) for key in keys}


def encodable(value):
    """A form JSON carries without loss: pairs of a type letter and a content."""
    if isinstance(value, dict):
        return ["d", [[encodable(key), encodable(item)] for key, item in value.items()]]
    if isinstance(value, list):
        return ["l", [encodable(item) for item in value]]
    if isinstance(value, bytes):
        return ["b", value.hex()]
    if isinstance(value, bool):
        return ["t", value]
    if isinstance(value, int):
        return ["i", str(value)]
    if isinstance(value, float):
        return ["f", repr(value)]
    return ["s", value] if isinstance(value, str) else ["n", None]


def fresh(value):
    """A copy that shares no object, since ours have no identity."""
    if isinstance(value, dict):
        return {key: fresh(item) for key, item in value.items()}
    return [fresh(item) for item in value] if isinstance(value, list) else value


def dump_rows():
    for _ in range(250):
        value = fresh(tree(RANDOM.randrange(1, 5)))
        for flow in (False, None, True):
            for sort in (True, False):
                text = salt.utils.yaml.safe_dump(value, default_flow_style=flow, sort_keys=sort)
                if not sort and text == salt.utils.yaml.safe_dump(value, default_flow_style=flow):
                    continue
                yield {"value": encodable(value), "flow": {False: "block", None: "leaves", True: "all"}[flow], "sort": sort, "out": text}


ARGS = r"""
|a|1|-1|+1|0|00|01|007|0644|-0644|1_000|_1|1_|_|__|1__0| 1_0 |1.5|1.|.5|1e3|1.0e+3|0x1f|0X1F|0b11|0o17|1:30|190:20:30
True|true|TRUE|yes|Yes|no|on|off|y|n|None|none|null|~|Null|NULL
[1,2]|[1, two, None]|[a|a]|{a: 1}|{a: 1|a: 1|a: {b: c}|- a|-|--|---|...|--- a|*|*.txt|&a|!|!a|!!int 3|\||\|a|>|%a|@a|`a`|?|? a|:|::|a:|a: |:a
#|# a|a#b|a #b|1 #b|[1] #b|{a: 1} #b|#1|  # x|None #|'a#b'|[a#b]|True #x|1.5#
 |  | a| 1| 1 |[ 1 ]| [1]| {a: 1}|'a'|"a"|'1'|"1"|"a|'a|''|""|'it''s'|"\n"|a\b
20240101120000123456|2024010112000012345|202401011200001234567|-1234567890123456789|12345678901234567890123
2001-01-01|2001-01-01 10:00:00|10:00|22:30:00|1.2.3|1.2.3.4|127.0.0.1|::1|[::1]|fe80::1/64|a=b|a=1|a==b|a=|=a|a.b=1|a-b=c|1a=b|_x=1|é=1|a b=c
ls -l|echo "a"|echo 'a: b'|df -h \| grep x|a,b|a, b|a b|{}|[]|{{ a }}|{% a %}|{a}|{a, b}|{a: [1, {b: c}]}|salt://a|http://x/y?a=b#c|/etc/salt|~/x|$HOME
inf|.inf|-.inf|nan|.nan|1e400|1.7e+308|=|<<|<<: a|{<<: {a: 1}}|{a: 1, a: 2}|!!binary aGk=|[!!binary aGk=]|!!set {a}|!!python/unicode a|é|日本|😀|0777|08|09|0_7|0b|0x|+|.|..|1,2|1 2|1-2|a-1|-a|--a=b|{"a": true}|["x", null]|{'a': 'b'}|"{}"|@|%|,|[,]|{,}|]|}|a]|[a]]|\t|\|1
"""


def args_rows():
    items = [item.replace("\0", "|") for line in ARGS.strip("\n").split("\n") for item in line.replace("\\|", "\0").split("|")]
    items += ["", "\t", "a\tb", "a\nb", "1\n", "\n", "a\r", "a=b\nc", "a=b\n", "[1,\n2]", "\x1c", "\u00a0", "\u20031_0", "a=1_0", "x=[1,2]", "x={a: b}", "x=None", "x=#a"]
    for item in items:
        name, text = salt.utils.args.parse_kwarg(item)
        row = {"in": item, "value": repr(plain(salt.utils.args.yamlify_arg(item)))}
        if name:
            row |= {"name": name, "text": text, "parsed": repr(plain(salt.utils.args.yamlify_arg(text)))}
        row["list"] = repr(plain(salt.utils.args.parse_input([item])))
        yield row


write("load.jsonl", load_rows())
write("dump.jsonl", dump_rows())
write("args.jsonl", args_rows())

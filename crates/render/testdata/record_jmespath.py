"""Records what the library jmespath finds, or says.

Run with the Python of an installed Salt: `python record_jmespath.py jmespath.json`.
"""

import json
import sys

import jmespath

DATA = {
    "people": [
        {"name": "ann", "age": 30, "tags": ["x", "y"]},
        {"name": "bob", "age": 5, "tags": []},
        {"name": "eve", "age": 30, "x": None},
    ],
    "z": {"b": 1, "a": {"deep": [1, [2, [3]]]}},
    "n": [3, 1.5, 2],
    "s": ["q", "b"],
    "e": [],
    "t": True,
    "f": False,
    "zero": 0,
    "one": 1,
    "nul": None,
    "big": 123456789012345678901234567890,
    "mixed": [1, "a", True],
    "\u00fc": "\u00f6",
    "a b": {"c-d": 7},
    "str": "text",
    "ops": [{"k": "b", "v": 1}, {"k": "a", "v": 2}, {"k": "b", "v": 3}],
}

QUERIES = r"""
people
people[0]
people[-1].name
people[9]
people[*].name
people[].tags
people[].tags[]
people[*].tags[0]
people[?age == `30`].name
people[?age > `10` && name != 'eve'].name
people[?age >= `30` || name == 'bob'] | length(@)
people[?name == 'ann' || name == 'bob'].age
people[?tags].name
people[?!tags].name
people[?x].name
people[?contains(tags, 'x')].name
people[?starts_with(name, 'a')]
people[?age < `10`] | [0]
people[:2].name
people[::-1].name
people[1:].name | [0]
people[-2:]
people[::0]
people[0].tags[1:]
people[0][0:1]
n[0][0:1].x
z.*
z.*.deep
*.deep
*[0]
z.a.deep[]
z.a.deep[][]
z.a.deep[*][0]
z."a".deep
"a b"."c-d"
"\u00fc"
{names: people[*].name, count: length(people)}
{b: one, a: t}
people[*].{n: name, a: age}
people[*].[name, age]
[one, t, nul]
nul.{a: b}
nul.[a]
sort(n)
sort(s)
sort(mixed)
sort(e)
sort_by(people, &age)[*].name
sort_by(people, &name)[0].name
sort_by(people, &tags)
sort_by(people, &x)
sort_by(e, &x)
sort_by(ops, &k)[*].v
sort_by(mixed, &@)
max_by(people, &age).name
min_by(people, &age).name
max_by(people, &tags)
max_by(e, &a)
max(n)
min(n)
max(s)
max(mixed)
max(e)
sum(n)
sum(e)
sum(mixed)
avg(n)
avg(e)
avg(s)
abs(`-5`)
abs(s)
abs(`-1.5`)
ceil(`1.2`)
floor(`-1.2`)
ceil(`3`)
floor(str)
length(z)
length(str)
length('ünï')
length(one)
keys(z)
values(z)
keys(people[0])
keys(n)
type(n)
type(one)
type(t)
type(nul)
type(str)
type(z)
type(big)
reverse(n)
reverse(str)
reverse(one)
join(', ', s)
join(', ', n)
join(', ', e)
map(&name, people)
map(&x, people)
map(&people, nul)
merge(z, {q: `1`})
merge(z, people[0])
merge(z)
merge()
not_null(nul, one)
not_null(nul)
not_null()
to_array(n)
to_array(one)
to_string(n)
to_string(z)
to_string(t)
to_string(str)
to_string(`"é"`)
to_number('12')
to_number('1.5')
to_number(' 7 ')
to_number('1_0')
to_number('x')
to_number(n)
to_number(nul)
to_number(t)
to_number(big)
contains(str, 'ex')
contains(n, `1.5`)
contains(str, `1`)
contains(z, 'a')
ends_with(str, 'xt')
starts_with(str, n)
nosuch(one)
length()
length(a, b)
length(n s)
length(n,)
abs
@
@.one
!t
!nul
!zero
!one
!str
!'' 
!e
t == `1`
one == `true`
zero == f
one == `1.0`
one != t
t == t
nul == nul
n == `[3, 1.5, 2]`
str == 'text'
str > 'tex'
str < one
n > one
t < one
one < big
one && str
zero && str
nul && str
e || str
e && str
f || zero
nul || f || str
str || nosuch(one)
one | @
people | [0] | name
people[*] | [0]
`[1, 2]`
`{"b": 1, "a": [null]}`
`foo`
`"foo"`
` 12`
`1.50`
`1e3`
`nul`
`{`
`"`
`\``
'it\'s'
'a\\b'
''
"a
"a\x"
'a
`a
a.
a..b
.a
a[
a[0
a[a]
a[*
a[?b
a[?]
a[?b=]
a[1:2:3:4]
a[b]
[0]
[*]
[]
[?@]
{}
{a}
{a: b
{a: b c: d}
{"x y": one}
{a b}
a b
a,
(one)
(people[0]).name
(people[*]).name
(people[*].name)[0]
people[*].name[0]
((((one))))
map(one, n)
-1
1
n[-1]
n[-9]
n[00]
a-b
a = b
a == 
a & b
a # b
é
foo(
foo(a
"foo"(a)
@(a)
`1`(a)
a.(b)
a.[b].c
a.{b: c}.b
z.a.*
z.[b, a.deep[0]]
people[*].tags | []
people[].{t: tags[]}
people[?age == `30`] | [?name == 'ann'].tags | [0][0]
people[?length(name) == `3`].name
people[?to_string(age) == '5'].name
people[?age==max(people[].age)]
ops[?k=='b'].v | sum(@)
ops[?v>`1`] | [*].k
t[0]
str[0]
str.x
one.x
n.x
n[x]
n.*
n[?@ > `1.5`]
n[?@ == '3']
big
[big, big]
abs(big)
sum([big, one])
avg([big, one])
max([big, one])
to_string(big)
z.a.deep[1][1][0]
people[0].tags[0] == 'x'
people[0]["name", 'age']
people[*]["name"]
people[*][name]
people.name
people.*.name
z.a || z.b
(z.a || z.b).deep[0]
sort_by(people, &to_string(age))[*].name
people[?name=='ann'].tags[] | join('-', @)
sort(keys(@))
keys(@)[0:3]
length(@)
values(z)[0]
""".strip("\n").split("\n")


def found(query):
    try:
        return {"text": str(jmespath.search(query, DATA))}
    except Exception as error:  # what it raises is the answer
        return {"error": str(error)}


with open(sys.argv[1], "w", encoding="utf-8") as out:
    lines = ",\n".join(json.dumps([query, found(query)], ensure_ascii=False) for query in QUERIES)
    out.write('{"data": %s,\n"cases": [\n%s\n]}\n' % (json.dumps(DATA, ensure_ascii=False), lines))

"""Templates that show filters, tests and globals."""

from cases import CASES, add, exprs, split

# Filters
split(r"""
-5|abs
'a'|abs
-2.5|abs
words|sort
words|sort(true)
words|sort(case_sensitive=true)
users|sort(attribute='name')|map(attribute='name')|list
users|sort(attribute='admin,uid', reverse=true)|map(attribute='uid')|join(',')
[1, 'a']|sort
words|unique|list
words|unique(true)|list
[1, 1.0, true, 2]|unique|list
[[1], [1]]|unique|list
words|join(', ')
words|join
users|join('+', attribute='name')
[1, none, 2.0]|join('-')
words|first
words|last
[]|first
[]|last
[]|first|default('x')
''|first
name|first
name|last
pkgs|first
pkgs|last
pkgs|dictsort
pkgs|dictsort(true)
{'b': 1, 'a': 2}|dictsort(by='value')
{'b': 1, 'a': 2}|dictsort(reverse=true)
{'b': 1}|dictsort(by='x')
{1: 'a', 'b': 2}|dictsort
[1]|dictsort
words|length
name|count
5|length
none|length
pkgs|length
words|list
'abc'|list
pkgs|list
5|list
pkgs.items()|list
words|reverse|list
'abc'|reverse
pkgs|reverse|list
5|reverse
words|map('upper')|list
words|map('replace', 'p', 'P')|join(' ')
users|map(attribute='home.dir')|list
users|map(attribute='home.dir', default='-')|list
users|map(attribute='nope')|list
words|map('nope')|list
words|map|list
words|map(nope)|list
words|map(attribute='x', y=1)|list
nums|select('odd')|list
nums|select('gt', 1)|list
nums|select|list
[0, 1, '', 'a']|select|list
[0, 1, '', 'a']|reject|list
nums|reject('odd')|list
words|select('equalto', 'fig')|list
users|selectattr('admin')|map(attribute='name')|list
users|selectattr('uid', 'gt', 1001)|map(attribute='name')|list
users|rejectattr('admin')|map(attribute='name')|list
users|selectattr('home.dir', 'defined')|map(attribute='name')|list
users|selectattr('nope')|list
users|selectattr()|list
nums|select('nope')|list
nums|select('in', [1, 2])|list
users|groupby('admin')
users|groupby('admin')|map('first')|list
users|groupby('home.dir', default='none')|map('list')|list
['b', 'A', 'a']|groupby(0)
nums|sum
users|sum(attribute='uid')
nums|sum(start=10)
[[1], [2]]|sum(start=[])
['a']|sum
nums|min
nums|max
words|min
words|max
words|max(case_sensitive=true)
[]|max
users|max(attribute='uid')|string
nums|batch(2)|list
nums|batch(2, 'x')|list
range(7)|batch(3)|map('list')|list
nums|slice(2)|list
range(7)|slice(3, 'x')|list
nums|slice(0)|list
'hello world'|capitalize
'hello world'|upper
'HELLO'|lower
"hello-world (foo) it's"|title
5|upper
none|lower
' x '|trim
'xxaxx'|trim('x')
5|trim
'ab'|center(6)
'ab'|center(width=7)
'aXb'|replace('X', '-')
'aaa'|replace('a', 'b', 2)
'aaa'|replace('a', 1)
123|replace(2, 'x')
'abc'|replace('b')
'a b c d'|wordcount
text|indent
text|indent(2, true)
text|indent(2, first=true, blank=true)
text|indent('> ')
text|indent(width='--', blank=true)
5|indent
text|wordwrap(8)
text|wordwrap(6, false)
'a-very-long-hyphenated-word and more'|wordwrap(10)
'abcdefghijklmno pq'|wordwrap(5)
'abcdefghijklmno pq'|wordwrap(5, break_long_words=false, wrapstring='|')
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, true)
'foo bar baz qux'|truncate(11)
'foo bar baz qux'|truncate(11, false, '...', 0)
'foo bar baz qux'|truncate(2)
'foobarbazquxfoobarbaz'|truncate(9)
[1, 2]|truncate(5)
'5'|int
'5.7'|int
'x'|int
'x'|int(3)
'0x1f'|int(base=16)
'1f'|int(0, 16)
'101'|int(base=2)
5.9|int
none|int
true|int
' 7 '|int
'1_000'|int
'-5'|int
'abc'|int(default='no')
[]|int
'1e3'|int
'5.5'|float
'x'|float
'x'|float(1.5)
5|float
'1e400'|float
'nan'|float
'inf'|float|int
none|float
42.55|round
42.55|round(1)
42.55|round(1, 'floor')
42.55|round(1, 'ceil')
42|round
2.5|round
3.5|round
-2.5|round
1234.5|round(-2)
1234|round(-2)
2.675|round(2)
42.55|round(1, 'x')
'a'|round
42.7|round|int
10|filesizeformat
1|filesizeformat
1000|filesizeformat
1500000|filesizeformat
1500000|filesizeformat(true)
10**30|filesizeformat
'x'|filesizeformat
0.5|filesizeformat
[1, 'a', none, true, 1.5, {'b': 1, 'a': [2]}]|tojson
{'b': 1, 'a': "it's <b>&"}|tojson
{'b': {'x': 1}, 'a': [1, 2]}|tojson(2)
{'b': [], 'a': {}}|tojson(indent=2)
{1: 'a', 'b': 2}|tojson
{(1, 2): 1}|tojson
range(3)|tojson
'é€😀'|tojson
1e400|tojson
{true: 1}|tojson
[1, [2, [3]]]|tojson(1)
tags|escape
tags|e
tags|safe
tags|forceescape
tags|escape|escape
tags|striptags
'<!-- c --><p>a   b</p>'|striptags
'&lt;x&gt; &amp;amp; &#65;'|striptags
{'class': 'a b', 'id': none, 'x': 1, 'y': '<'}|xmlattr
{'class': 'a'}|xmlattr(false)
{'a b': 1}|xmlattr
{}|xmlattr
'a b/c?d=é&'|urlencode
{'a b': 'c d', 'e': 1}|urlencode
[('a', 1), ('b', 2)]|urlencode
5|urlencode
'see http://example.com/x?y=1. and www.foo.org, (bar.com) me@x.org'|urlize
'http://example.com/a-very-long-path/indeed'|urlize(15, nofollow=true)
'http://example.com'|urlize(target='_blank', rel='a b')
'<http://example.com> mailto:a@b.org ftp://x.y'|urlize
'ftp://x.y'|urlize(extra_schemes=['ftp:'])
{'b': 1, 'a': [1, 2]}|pprint
[1, 'a', none]|pprint
users|pprint
['a long text that goes on and on ' * 5]|pprint
'a long text that goes on and on ' * 5 |pprint
('a long text that goes on and on ' * 5)|pprint
(range(60)|list)|pprint
{'key': ('x' * 30, 'y' * 30, 'z' * 30)}|pprint
name|string
5|string
none|string
[1]|string
name|attr('upper')
deep|attr('a')
deep|attr('keys')
name|attr('__class__')
missing|attr('x')
pkgs|items|list
missing|items|list
5|items|list
'%s'|format
name|nope
name|upper(1)
name|upper(x=1)
name|default
name|default('x', false, 1)
name|join('-', 'x', 1, 2)
words|join(d='-')
words|sort(nope=1)
words|batch
pkgs|map('upper')|list
[3, 1]|sort|first
'b,a'.split(',')|sort|join
(1, 2)|list
'abc'|batch(2)|list
[1, 2, 3]|random in [1, 2, 3]
[]|random|default('none')
5|random
nums|map('string')|join
nums|sort(reverse=true)|list
'a' ~ tags|e
'<' ~ '&'|e
'<' + '&'|e
'&'|e + '<'
('&'|e) * 2
['&'|e]
'%s' % ('&'|e)
('%s&'|e) % '<'
('a<b'|e).split('&')
('a<b'|e)|upper
('a'|e) == 'a'
{'a'|e: 1}['a']
{'a': 1}|tojson + '<'
'<' + ({'a': 1}|tojson)
{'a': 1}|tojson ~ '<'
words|e
none|e
""")

# Tests
split(r"""
1 is odd
2 is even
9 is divisibleby 3
9 is divisibleby(4)
9 is divisibleby
'a' is odd
name is defined
nope is defined
nope is undefined
none is none
name is none
true is boolean
1 is boolean
false is false
0 is false
true is true
1 is true
1 is integer
true is integer
1.0 is integer
1.0 is float
1 is float
'a' is lower
'A' is upper
'Aa' is lower
1 is lower
name is string
1 is string
deep is mapping
nums is mapping
1 is number
1.5 is number
true is number
'1' is number
nums is sequence
name is sequence
deep is sequence
1 is sequence
range(3) is sequence
pkgs.keys() is sequence
(nums|map('string')) is sequence
nums is iterable
1 is iterable
name is iterable
none is iterable
missing is iterable
nums is sameas nums
nums is sameas [3, 1, 2]
1 is sameas 1
none is sameas none
name is callable
name.upper is callable
range is callable
missing is callable
name is escaped
(name|e) is escaped
1 is in [1]
1 is in 5
'upper' is filter
'nope' is filter
'odd' is test
'nope' is test
1 is eq 1
1 is equalto 1
1 is == 1
1 is ne 2
2 is gt 1
2 is greaterthan 1
2 is ge 2
1 is lt 2
1 is lessthan 2
1 is le 1
1 is lt 'a'
1 is eq
1 is not odd
1 is not defined
not 1 is odd
name is not none and name is string
1 is nope
1 is odd is even
nums is defined and nums|length > 2
2 is divisibleby 1 + 1
nope is sameas none
nope is mapping
nope is string
nope is none
nope is number
nope is sequence
nope is eq 1
nope is odd
nope is in [1]
""")

# Globals
add(
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% do c.reset() %}{{ c.current }}",
    "{{ cycler() }}",
    "{% set j = joiner('; ') %}{{ j() }}a{{ j() }}b{{ j() }}c",
    "{% set j = joiner() %}{{ j() }}{{ j() }}{{ j(1) }}",
    "{% set ns = namespace(a=1) %}{% for x in [1, 2] %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}{{ ns }}",
    "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns.c }}",
    "{% set ns = namespace() %}{% set ns.x %}text{% endset %}{{ ns.x }}",
    "{% set x = {} %}{% set x.a = 1 %}",
    "{% set nope.a = 1 %}",
    "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns }}",
    "{{ range }}", "{{ dict }}", "{{ namespace }}", "{{ namespace(1) }}", "{{ range(3) | list }}{{ range(3)[1] }}{{ range(0) | list }}",
    "{% for x in range(3) %}{{ x }}{% endfor %}{{ range(2, 8, 3) | list }}{{ range(3) | join(',') }}",
    "{{ ns }}", "{{ joiner }}", "{{ 1 in range(3) }}{{ range(3) == range(3) }}{{ range(3) == [0, 1, 2] }}{{ range(3) | sum }}",
    "{% set ns = namespace(x=1) %}{{ ns['x'] }}", "{% set ns = namespace(x=1) %}{{ ns.items }}", "{{ namespace(a=1) is mapping }}",
)

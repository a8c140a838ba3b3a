"""Templates that show one thing each; a text, or a dictionary with templates beside it and options."""

CASES = []


def add(*cases):
    CASES.extend(cases)


def exprs(*sources):
    CASES.extend("{{ %s }}" % source for source in sources)


def split(source):
    """Several expressions, one on a line, empty lines and comments left out."""
    exprs(*[line.strip() for line in source.splitlines() if line.strip() and not line.strip().startswith("#")])


# Literals and printing
split(r"""
1
1_000
0x1f
0b101
0o17
00
1.5
1e3
1e22
1.0e-7
1_0.2_5
123456789012345678901234567890
-5
- 5 ** 2
+yes
'a' 'b' "c"
'it\'s'
"\x41\u00e9\t|"
'\101'
'a\\nb'
'\d\.'
[1, 'a', 2.0, none, true]
(1,)
()
(1, 2, 'x')
{}
{'a': 1, 2: [3], 'c': {'d': none}}
{1: 'a', True: 'b', 1.0: 'c'}
['a\nb', 'tab\there', "quote'", 'both"\'']
{'k': 'a\nb', 'l': ['a\nb'], 'm': {'n': 'a\tb'}}
{'k\n': 1}
[{'a': 'b\n'}]
1.0
100000000000000000.0
1e16
123456789.123
0.1 + 0.2
1 / 3
-0.0
1e308 * 10
'é€😀'
['é€😀']
'\x00\x7f'
['\x00\x7f\x85']
none
True
[True, False, None]
range(3)
range(1, 10, 3)
range(5, 0, -2)
[range(2)]
users
deep
pkgs
pkgs.keys()
pkgs.values()
pkgs.items()
1, 2
(1, 2), 3
'a' ~ 1 ~ none ~ 2.0 ~ [1] ~ {'a': 1}
name is defined
""")

# Arithmetic
split(r"""
7 // 2
-7 // 2
7 // -2
7.5 // 2
-7 % 3
7 % -3
7.5 % -2
2 ** 10
2 ** -1
2 ** 0.5
2 ** 100
(-2) ** 3
2 ** 3 ** 2
10 / 5
7 / 2
1 / 0
1 // 0
1 % 0
1.0 / 0
1.0 // 0
1.0 % 0
0 ** -1
9223372036854775807 + 1
-9223372036854775808 - 1
9223372036854775807 * 9223372036854775807
10 ** 20 // 7
-(10 ** 20) % 7
10 ** 30 / 10 ** 10
10 ** 400 / 3
10.0 ** 400
1 + 1.5
yes + yes
yes * 3
'ab' * 3
3 * 'ab'
'ab' * -1
[1] * 3
(1, 2) * 2
[1] + [2]
(1,) + (2,)
[1] + (2,)
'a' + 1
1 + 'a'
none + 1
'a' + none
[] + 'a'
{} + {}
1 - 'a'
'a' - 'b'
'a' * 'b'
'a' * 1.5
[1] * 'a'
'a' / 2
[] / 2
'a' // 2
none % 2
-'a'
+'a'
-none
-[]
-yes
2 ** 'a'
1 + 2 * 3 - 4 / 2
(1 + 2) * 3
1 < 2
1 < 2 < 3
1 < 2 > 3
1 == 1.0 == true
'a' < 'b'
'a' < 1
1 < 'a'
[1, 2] < [1, 3]
[1, 'a'] < [1, 2]
(1, 2) < (1,)
{} < {}
none < 1
none == none
[] == ()
[1, [2]] == [1, [2.0]]
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
'1' == 1
1 != 2
1 >= 1
2 <= 1
1 in [1, 2]
1 not in [1, 2]
'a' in 'cab'
1 in 'cab'
'a' in {'a': 1}
[] in {'a': 1}
1 in 5
'x' in none
1.0 in [1]
5 in range(10)
11 in range(10)
'b' in pkgs.keys()
(1, 2) in [(1, 2)]
not 1
not []
not not 'a'
1 and 0
0 or 'x'
'' or none or []
1 and 'x' and [2]
1 if yes else 2
1 if no else 2
1 if no
(1 if no) is defined
'a' if no else 'b' if no else 'c'
(1 if no).x
10 ** 18 * 10 == 10 ** 19
1e400
-1e400
(1e400) - (1e400)
int
7.0 // 0.1
3 % 2.5
2 ** 63
-2 ** 63
1 == true
'a' == none
""")

# Lookup
split(r"""
deep.a.b[1].c
deep['a']['b'][0]
deep.a.b.1
deep.x
deep.x.y
deep['x']
deep.a.b[5]
deep.a.b['x']
deep.a.b.x
nums[-1]
nums[10]
nums['a']
nums[1.5]
nums[none]
name[0]
name[-1]
name[99]
name['x']
name.x
num.x
num[0]
nothing.x
nothing[0]
yes.x
pi.x
(1, 2)[1]
(1, 2).x
(1, 2)[5]
range(10)[3]
range(10)[30]
{1: 'a'}[1]
{1: 'a'}.1
{1: 'a'}['1']
{'items': 1}.items
{'items': 1}['items']
{'a': 1}.get
pkgs.keys().x
missing
missing.x
missing[0]
missing()
missing is defined
missing is undefined
missing or 1
not missing
missing == 1
1 + missing
missing + 1
missing ~ 'a'
[missing]
{'a': missing}
missing in [1]
1 in missing
missing|default('d')
missing.x|default('d')
deep.x|default('d')
deep.x.y|default('d')
missing|d
''|default('d')
''|default('d', true)
none|default('d')
none|default('d', boolean=true)
missing|length
missing|list
missing|join
missing|upper
missing|int
missing|float
missing|first
missing|sort
missing|replace('a', 'b')
missing|string
missing|tojson
missing|map('upper')
missing|map('upper')|list
missing < 1
missing.__class__
name.__class__
name._x
deep.__len__
deep['__class__']
deep._foo
nums.__getitem__
name.format
''.__class__.__mro__
num.__add__
cycler.__init__
range.__call__
(1).real
(1).imag
(2.5).real
(5).numerator
name.upper
nums.append
nums.nope()
name()
num()
[]()
none()
nothing.x()
""")

# Slices
split(r"""
nums[1:]
nums[:1]
nums[::-1]
nums[::2]
nums[-2:]
nums[5:]
nums[:]
name[1:3]
name[::-1]
name[::2]
name[-3:]
'é€😀x'[1:3]
'é€😀x'[::-1]
(1, 2, 3)[1:]
range(10)[2:5]
range(10)[::-2]
nums[::0]
nums['a':]
nums[1.5:]
nums[none:none]
nums[0:2][0]
none[1:]
num[1:]
{}[1:]
missing[1:]
name[3:1]
name[100:]
name[-100:2]
nums[1:2, 0]
""")

# Methods of text
split(r"""
'hello world'.upper()
'Hello'.lower()
'hello world'.title()
"they're bill's".title()
'hELLO wORLD'.capitalize()
'Hello'.swapcase()
'  x '.strip()
'xxaxx'.strip('x')
'xxaxx'.lstrip('x')
'xxaxx'.rstrip('x')
'abc'.strip(1)
'a,b,,c'.split(',')
'a b  c '.split()
'a,b,c'.split(',', 1)
'a,b,c'.rsplit(',', 1)
' a b c '.split(none, 1)
' a b c '.rsplit(none, 1)
'a'.split('')
'a'.split(1)
''.split()
''.split(',')
'abc'.split(maxsplit=1, sep='b')
'abc'.split(x=1)
'abc'.split(1, 2, 3)
'a\nb\r\nc\n'.splitlines()
'a\nb\r\nc\n'.splitlines(true)
','.join(['a', 'b'])
','.join('abc')
','.join([1, 2])
','.join(1)
','.join({'a': 1, 'b': 2})
'aXbX'.replace('X', '-')
'aXbX'.replace('X', '-', 1)
'abc'.replace('', '-')
'abc'.replace('', '-', 2)
'abc'.replace('a')
'abc'.replace(1, 2)
'abc'.startswith('a')
'abc'.startswith(('x', 'a'))
'abc'.startswith('b', 1)
'abc'.startswith(1)
'abc'.endswith('c')
'abc'.endswith('b', 0, 2)
'abc'.startswith(['a'])
'abcabc'.find('c')
'abcabc'.rfind('c')
'abcabc'.find('x')
'abcabc'.index('c', 3)
'abcabc'.index('x')
'abc'.find(1)
'abcabc'.count('a')
'abc'.count('')
'aaaa'.count('aa')
'ab'.center(7, '*')
'ab'.center(6)
'abc'.center(6, '-')
'ab'.ljust(5, '.')
'ab'.rjust(5, '.')
'ab'.center(5, 'xx')
'ab'.center('x')
'ab'.center()
'42'.zfill(5)
'-42'.zfill(5)
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.rpartition('-')
'abc'.partition('')
'prefix-x'.removeprefix('prefix-')
'x.txt'.removesuffix('.txt')
'a\tb'.expandtabs()
'a\tb'.expandtabs(4)
'abc'.encode()
'é'.encode('ascii')
'é'.encode('latin-1')
'é'.encode('nope')
'é'.encode().decode()
'abc'.isalpha()
'abc1'.isalnum()
'123'.isdigit()
'12.3'.isdecimal()
'½'.isnumeric()
'  '.isspace()
''.isspace()
'abc'.islower()
'ABC'.isupper()
'Abc Def'.istitle()
'a_b'.isidentifier()
'1a'.isidentifier()
'a b'.isprintable()
'é'.isascii()
'ß'.upper()
'İ'.lower()
'abc'.upper(1)
'abc'.upper(x=1)
'abc'.casefold()
'abc'.translate({97: 'x', 98: none})
'abc'.translate('abc'.maketrans('ab', 'xy'))
'abc'.nope()
'abc'.zfill('x')
'a'.join(missing)
missing.join('a')
'x'.zfill()
'abcdef'.index('d', -4, -1)
""")

# Methods of lists, dictionaries, tuples, numbers
add(
    "{% set l = [] %}{% do l.append(1) %}{% do l.extend([2, 3]) %}{% do l.insert(0, 'x') %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}",
    "{% set l = [3, 1, 2] %}{% do l.sort() %}{{ l }}{% do l.sort(reverse=true) %}{{ l }}{% do l.reverse() %}{{ l }}",
    "{% set l = ['b', 'A'] %}{% do l.sort(key='x'.upper) %}{{ l }}",
    "{% set l = [1, 'a'] %}{% do l.sort() %}",
    "{% set l = [1, 2, 1] %}{{ l.count(1) }}{{ l.index(2) }}{% do l.remove(1) %}{{ l }}{% do l.clear() %}{{ l }}",
    "{{ [].pop() }}", "{{ [1].pop(5) }}", "{{ [1].remove(2) }}", "{{ [1].index(2) }}", "{{ [1].append() }}", "{{ [1].append(1, 2) }}",
    "{{ [1].insert(1) }}", "{{ [1].pop('a') }}", "{{ [1].extend(1) }}", "{{ [1].append(x=1) }}", "{{ [1, 2].copy() }}", "{{ [1].pop(1, 2) }}",
    "{% set a = [1] %}{% set b = a %}{% do b.append(2) %}{{ a }}{{ a is sameas b }}{{ a == b.copy() }}{{ a is sameas b.copy() }}",
    "{% set a = [1] %}{% do a.append(a) %}{{ a }}", "{% set d = {} %}{% do d.update(d=d) %}{{ d }}",
    "{% set d = {'a': 1} %}{% do d.update({'b': 2}, c=3) %}{{ d }}{% do d.update([('e', 5)]) %}{{ d }}",
    "{% set d = {'a': 1} %}{{ d.pop('a') }}{{ d.pop('a', 'gone') }}{{ d.pop('a') }}",
    "{% set d = {'a': 1} %}{{ d.setdefault('a', 2) }}{{ d.setdefault('b', []) }}{{ d.setdefault('c') }}{{ d }}",
    "{% set d = {'a': 1, 'b': 2} %}{{ d.popitem() }}{{ d }}{% do d.clear() %}{{ d }}{{ d.popitem() }}",
    "{{ {'a': 1}.get('a') }}{{ {'a': 1}.get('b') }}{{ {'a': 1}.get('b', 5) }}", "{{ {}.get() }}", "{{ {}.get([]) }}", "{{ {}.get(1, 2, 3) }}",
    "{{ {}.update(1) }}", "{{ {}.update([1]) }}", "{{ {}.update([(1, 2, 3)]) }}", "{{ {}.update(1, 2) }}", "{{ {}.pop() }}", "{{ {[]: 1} }}", "{{ {{}: 1} }}",
    "{{ {(1, [2]): 1} }}", "{{ {'a': 1}.fromkeys(['x', 'y'], 0) }}", "{{ {'a': 1}.copy() }}", "{{ {'a': 1}.keys() | list }}", "{{ {'a': 1}.items() | list }}",
    "{{ {'a': 1}.keys() - ['a'] }}", "{% set d = {'a': 1} %}{% for k in d %}{% do d.update({k ~ 'x': 1}) %}{% endfor %}",
    "{% set d = {'a': 1} %}{% for k in d.keys() | list %}{% do d.pop(k) %}{% endfor %}{{ d }}",
    "{% set d = {'a': 1} %}{% set v = d.values() %}{% do d.update(b=2) %}{{ v }}{{ v | length }}",
    "{% set l = [1, 2, 3] %}{% for x in l %}{{ x }}{% do l.remove(x) %}{% endfor %}{{ l }}",
    "{{ (1, 2, 1).count(1) }}{{ (1, 2).index(2) }}", "{{ (1, 2).index(5) }}", "{{ (255).bit_length() }}", "{{ (2.5).is_integer() }}{{ (2.0).is_integer() }}",
    "{{ (0.5).as_integer_ratio() }}", "{{ (10).bit_count() }}", "{{ {'a': 1, 'b': 2}.values() | sum }}", "{{ dict(a=1, b=2) }}{{ dict({'x': 1}, y=2) }}{{ dict([('k', 'v')]) }}",
    "{{ dict(1) }}", "{{ dict(1, 2) }}", "{{ {}.keys() }}{{ {}.items() }}{{ {}.values() }}", "{{ {1: 2}.keys() == {1: 3}.keys() }}", "{{ range(5).count(2) }}{{ range(5).index(3) }}",
    "{{ range(5).start }}{{ range(5).stop }}{{ range(5).step }}", "{{ range() }}", "{{ range('a') }}", "{{ range(1, 2, 0) }}", "{{ range(1.5) }}", "{{ range(10**6) }}", "{{ range(1,2,3,4) }}",
)

# % and format
split(r"""
'%s' % 'a'
'%s %s' % ('a', 1)
'%s' % [1, 2]
'%s' % (1,)
'%s' % none
'%r' % 'a'
'%5s|%-5s|' % ('a', 'b')
'%.2s' % 'abc'
'%d' % 42
'%d' % 3.99
'%5d|%-5d|%05d' % (42, 42, 42)
'%+d % d' % (5, 5)
'%x %X %#x %o %#o' % (255, 255, 255, 8, 8)
'%f' % 1.5
'%.2f' % 3.14159
'%e' % 12345.678
'%g %g' % (0.0001, 1e10)
'%G' % 1e-10
'%c%c' % (65, 'b')
'%%' % ()
'100%'
'%d%%' % 50
'%(a)s %(b)05d' % {'a': 'x', 'b': 7}
'%(a)s' % {'b': 1}
'%(a)s' % [1]
'%s' % (1, 2)
'%s %s' % (1,)
'%s %s' % 'a'
'%d' % 'a'
'%d' % none
'%x' % 1.5
'%f' % 'a'
'%y' % 1
'%' % 1
'abc' % 1
'abc' % {}
'abc' % []
'abc' % ()
'%*d' % (5, 42)
'%.*f' % (2, 3.14159)
'%(a' % {}
'%s' % missing
'%d' % missing
'%i' % 10**20
'%5.1f|' % 2.25
'%a' % 'é'
'%s' % {'a': 1}
'%-10s|' % true
'%03d' % -5
'%.3d' % 5
'%c' % 'ab'
'%c' % -1
'{}'.format(1)
'{} {}'.format('a', 'b')
'{1} {0}'.format('a', 'b')
'{a} {b}'.format(a=1, b=2)
'{0.x}'.format({'x': 1})
'{0[x]}'.format({'x': 1})
'{0[1]}'.format([1, 2])
'{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c')
'{:*^9}'.format('mid')
'{:05d}'.format(42)
'{:+d}'.format(42)
'{:,}'.format(1234567)
'{:_}'.format(1234567)
'{:x} {:#x} {:b} {:#b} {:o} {:X}'.format(255, 255, 5, 5, 8, 255)
'{:.2f}'.format(3.14159)
'{:8.3f}|'.format(3.14159)
'{:e}'.format(12345.678)
'{:g}'.format(0.00001)
'{:%}'.format(0.25)
'{:.1%}'.format(0.256)
'{:,.2f}'.format(1234567.891)
'{:010.2f}'.format(-3.14159)
'{:=+8d}'.format(42)
'{:c}'.format(65)
'{!r}'.format('a')
'{!s}'.format('a')
'{!x}'.format('a')
'{{}}'.format()
'{'.format(1)
'}'.format(1)
'{0'.format(1)
'{}'.format()
'{a}'.format()
'{0} {}'.format(1, 2)
'{} {0}'.format(1, 2)
'{:{}}'.format('a', 5)
'{:{w}}|'.format('a', w=5)
'{:d}'.format('a')
'{:s}'.format(1)
'{:5}|'.format(1)
'{:5}|'.format('a')
'{:.3}'.format('abcdef')
'{:.3}'.format(3.14159)
'{:.2d}'.format(1)
'{:zz}'.format(1)
'{:=5}'.format('a')
'{:+}'.format('a')
'{:,}'.format('a')
'{:5}'.format([1])
'{}'.format([1])
'{:5}|'.format(none)
'{}'.format(none)
'{:5}|'.format(true)
'{}'.format(true)
'{:d}'.format(true)
'{:.0f}'.format(2.5)
'{:.0f}'.format(3.5)
'{:f}'.format(10**20)
'{:n}'.format(1234)
'{0.__class__}'.format(1)
'{0.__class__.__name__}'.format(1)
'{a.b.c}'.format(a={'b': {'c': 5}})
'{a[b][0]}'.format(a={'b': [5]})
'{.x}'.format({'x': 1})
'{[0]}'.format([9])
'{0.y}'.format({'x': 1})
'{a}'.format_map({'a': 1})
'{a}'.format_map(1)
'{a}'.format_map()
'{:>{w}.{p}f}|'.format(3.14159, w=8, p=2)
'{:0>5}'.format(42)
'{:<05}|'.format(42)
'{:#.3g}'.format(1.0)
'{:E} {:F} {:G}'.format(1.5, 1.5, 1.5)
'{:,d}'.format(-1234567)
'{:09,d}'.format(1234567)
'%s and %s'|format('a', 'b')
'%(x)s'|format(x=1)
'%s %(x)s'|format(1, x=1)
'%d'|format('a')
""")

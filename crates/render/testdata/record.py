"""Records what the real Salt makes of templates.

Run with the Python of an installed Salt: `python record.py jinja.json`.
"""

import json
import logging
import os
import sys
import tempfile

os.environ["TZ"] = "UTC"
logging.disable(logging.CRITICAL)

import salt.config
import salt.exceptions
import salt.loader
import salt.utils.stringutils
import salt.utils.templates

GRAINS = {"os": "Debian", "os_family": "Debian", "id": "web1", "roles": ["web", "db"], "nested": {"a": {"b": [1, 2]}}}
PILLAR = {"users": {"ann": {"uid": 1000}, "bob": {"uid": 1001}}, "port": 8080, "flag": True, "text": "one\ntwo"}
FILES = {
    "lib/macros.jinja": "{% macro greet(name, end='!') %}Hello {{ name }}{{ end }}{% endmacro %}\n{% set answer = 42 %}\n{% macro bad() %}\n\n{{ nothing }}\n{% endmacro %}\n",
    "lib/context.jinja": "{% set seen = tpldir ~ ' ' ~ tplfile ~ ' ' ~ grains.os %}{% macro where() %}{{ tpldir }}/{{ tplfile }}{% endmacro %}",
    "lib/broken.jinja": "fine\n{% if %}\n",
    "lib/undefined.jinja": "a\nb\n{{ missing.thing }}\n",
    "lib/data.yaml": "a: 1\nb: [x, y]\nc: {d: 0644, e: yes}\n",
    "lib/data.json": '{"a": 1, "b": ["x", null, 2.5]}',
    "lib/data.txt": "plain {{ 1 + 1 }}\ntext\n",
    "lib/bad.yaml": "a: [1\n",
    "lib/bad.json": "{",
    "lib/templated.yaml": "{% set n = 2 %}os: {{ grains.os }}\nn: {{ n }}\n",
    "lib/inner/rel.jinja": "{% from './leaf.jinja' import leaf %}{% set r = leaf %}",
    "lib/inner/leaf.jinja": "{% set leaf = 'leaf ' ~ tpldir %}",
    "a/local.jinja": "{% set here = 'local' %}",
    "base.txt": "top {% block body %}default{% endblock %} end",
    "piece.txt": "piece of {{ grains.id }} {{ x|default('none') }}",
    "loop.txt": "{{ loop.index }}:{{ item }};",
}

EXPRESSIONS = r"""
'yes' | to_bool
'no' | to_bool
'1' | to_bool
'True' | to_bool
none | to_bool
0 | to_bool
5 | to_bool
-1 | to_bool
[] | to_bool
[0] | to_bool
{} | to_bool
2.5 | to_bool
() | to_bool
'a' | sequence
['a'] | sequence
{'a': 1} | sequence
5 | sequence
none | sequence
'text' | skip
'my text' | quote
"it's" | quote
'safe-1.2/x' | quote
'' | quote
'a.b*c' | regex_escape
'abc-d_e f' | regex_escape
'abcd' | regex_search('^(.*)bc(.*)$')
'abcd' | regex_search('^(.*)BC(.*)$', ignorecase=True)
'abcd' | regex_search('bc')
'abcd' | regex_search('x')
'a\nb' | regex_search('^b', multiline=True)
'abcd' | regex_match('bc')
'abcd' | regex_match('(a)(x)?')
'abcd' | regex_match('ab')
'abcd' | regex_match('^(?P<x>.)(?P<y>.)')
'lets replace spaces' | regex_replace('\\s+', '__')
'abc' | regex_replace('(b)', '<\\1>')
'abc' | regex_replace('(?P<n>b)', '<\\g<n>\\g<1>>')
'aAa' | regex_replace('a', 'x', ignorecase=True)
'a\nb' | regex_replace('^', '> ', multiline=True)
'abc' | regex_replace('', '-')
'10.0.0.1' | regex_replace('\\.\\d+$', '.0/24')
'x' | regex_replace('(', 'y')
'a1b22' | regex_replace('\\d', '#')
'héllo wörld' | regex_replace('\\w+', 'W')
5 | regex_replace('5', 'x')
'example' | uuid
'' | uuid
'ünï' | uuid
['a', 'b', 'c', 'a', 'b'] | unique
[1, 1.0, true, 2] | unique
[[1], [1], [2]] | unique
[{'a': 1}, {'a': 1}] | unique
('a', 'a') | unique | list
[1,2,3,4] | min
[1,2,3,4] | max
['b', 'a'] | min
'hello' | max
[] | min
[1,2,3,4] | avg
5 | avg
[] | avg
[1,2,3,4] | union([2, 4, 6])
[1,2,3,4] | intersect([2, 4, 6])
[1,2,3,4] | difference([2, 4, 6])
[1,2,3,4] | symmetric_difference([2, 4, 6])
(1, 2) | union((2, 3)) | list | sort
(1, 2) | intersect((2, 3)) | list
(1, 2) | difference((2, 3)) | list
'abc' | method_call('upper')
'a,b' | method_call('split', ',')
'abc' | method_call('nope')
{'a': 1} | method_call('get', 'a')
{'b': 1, 'a': [1, 2]} | tojson
{'b': 1, 'a': "<x> & 'y'"} | tojson
{'b': 1, 'a': 2} | tojson(sort_keys=True)
{'b': [1, {}]} | tojson(indent=2)
'ünï' | tojson
[none, true, 1.5, 'x'] | tojson
{'b': 1} | tojson(separators=(',', ':'))
{'b': 1, 'a': 2} | json
{'b': {'c': [1, 'x', none]}, 'a': 2} | json(indent=4)
{'b': 1, 'a': 2} | json(sort_keys=False)
'ünï "x"' | json
{1: 2, none: 3} | json(sort_keys=False)
[1.0, 2e20, 1e-7] | json
{'b': 1, 'a': [1, 2]} | yaml
{'b': 1, 'a': [1, 2]} | yaml(False)
{'b': {'c': [1, {'d': 2}]}, 'a': 'x'} | yaml(flow_style=False)
'text' | yaml
'yes' | yaml
'a: b' | yaml
none | yaml
true | yaml
1.5 | yaml
5 | yaml
[] | yaml
{} | yaml
'multi\nline' | yaml
{'k': 'multi\nline'} | yaml(False)
'ünï' | yaml
['0644', '1e3', '2001-01-01', 'null', ''] | yaml
{'long': 'word ' * 30} | yaml(False)
{'b': 1, 'a': [1, 2], 'c': true, 'd': none} | python
{'b': range(40)|list} | python
['word ' * 10, 'b'] | python
'text' | python
{'root_node': {'foo': true, 'bar': 42, 'baz': [1, 2, 3], 'qux': 2.0}} | xml
{'r': {'a': {'b': 'c'}}} | xml
5 | xml
'a: 1' | load_yaml
'- a\n- b' | load_yaml
'x: [1' | load_yaml
'' | load_yaml
5 | load_json
'{"a": [1, null]}' | load_json
'{' | load_json
'text' | load_text
'a' | load_yaml | yaml
{'name': 'thing', 'changes': true, 'list': [1, 2]} | dict_to_sls_yaml_params
{'name': 'thing'} | dict_to_sls_yaml_params | indent
[1,2,3] | combinations(2) | list
[1,2] | combinations_with_replacement(2) | list
[1,2,3] | permutations(2) | list
[1,2] | permutations | list
['a','b'] | product(['c','d']) | list
[1,2] | product(repeat=2) | list
['a','b','c'] | compress([1,0,1]) | list
[1,2] | zip(['a','b']) | list
[1,2,3] | zip(['a']) | list
[1,2,3] | zip_longest(['a'], fillvalue='-') | list
[1,2] | combinations(3) | list
{'a': {'b': [1, {'c': 2}]}} | traverse('a:b:0')
{'a': {'b': [1, {'c': 2}]}} | traverse('a:b:c')
{'a': {'b': 1}} | traverse('a:x', 'default')
{'a': {'b': 1}} | traverse('a:x')
{'a': {'b': 1}} | traverse('a/b', delimiter='/')
{'a': {1: 'one'}} | traverse('a:1')
{'a': 'text'} | traverse('a:b', 'no')
[5, 6] | traverse('1')
[5, 6] | traverse(1)
[5, 6] | traverse('-1')
[5, 6] | traverse('7', 'none')
{'a': none} | traverse('a', 'no')
{'a': none} | traverse('a:b', 'no')
{'a': {'b': 1}} | traverse(['a', 'b'])
{} | set_dict_key_value('a:b:c', 1)
{'a': {'x': 1}} | set_dict_key_value('a:b', [1])
{'a': 5} | set_dict_key_value('a:b', 1)
{} | set_dict_key_value('a/b', 1, delimiter='/')
{} | append_dict_key_value('a:b', 1)
{'a': {'b': [1]}} | append_dict_key_value('a:b', 2)
{'a': 5} | append_dict_key_value('a', 2)
{'a': [1]} | extend_dict_key_value('a', [2, 3])
{'a': [1]} | extend_dict_key_value('a', 'xy')
{'a': [1]} | extend_dict_key_value('a', 5)
{} | update_dict_key_value('a:b', {'c': 1})
{'a': {'x': 1}} | update_dict_key_value('a', {'y': 2})
{'a': [1]} | update_dict_key_value('a', {'y': 2})
{'a': {}} | update_dict_key_value('a', 5)
{} | set_dict_key_value('a:b', 1, ordered_dict=True)
{'a': 1, 'b': 2} | to_entries
['x', 'y'] | to_entries
5 | to_entries
[{'key': 'a', 'value': 1}, {'Name': 'b', 'Value': 2}, {'value': 3}] | from_entries
[1, [2, [3, [4, none, 'null']]]] | flatten
[1, [2, [3, [4]]]] | flatten(levels=1)
[1, none, ['None']] | flatten(preserve_nulls=True)
[{'a': 1}, (2, 3)] | flatten
[0, 1, 0] | exactly_one_true
[1, 1, 0] | exactly_one_true
[1, 1, 0] | exactly_n_true(2)
[] | exactly_n_true(0)
['B', 'a', 'C'] | sorted_ignorecase
['b', 'B', 'a'] | sorted_ignorecase
[1] | sorted_ignorecase
'ab' | substring_in_list(['xabx', 'y'])
'zz' | substring_in_list(['xabx', 'y'])
[1, 2, 3] | compare_lists([1, 2, 4])
[1] | compare_lists([1])
{'a': 1, 'b': 2} | compare_dicts({'a': 1, 'b': 3}) | json
{'a': 1} | compare_dicts({'c': 3}) | json
[] | is_list
() | is_list
'x' | is_list
'x' | is_iter
[1] | is_iter
5 | is_iter
{} | is_iter
['| a | b |', '+---+', '| 1 | x |', '| 2.5 | y |'] | mysql_to_dict('a') | json
['+--+', '| a | b |', '', '| 1 | x |'] | mysql_to_dict('b') | json
'hello' | md5
'hello' | sha1
'hello' | sha256
'hello' | sha512
'ünï' | sha256
'get salted' | hmac_compute('shared secret')
'get salted' | hmac('shared secret', 'eBWf9bstXg+NiP5AOwppB5HMvZiYMPzEM9W5YMm/AmQ=')
'get salted' | hmac('shared secret', 'nope')
'get salted' | base64_encode
'Z2V0IHNhbHRlZA==' | base64_decode
'Z2V0IHNhbHRlZA' | base64_decode
'//79' | base64_decode
'ünï' | base64_encode
'10' | to_num
'1.5' | to_num
'x1' | to_num
' 7 ' | to_num
'1_000' | to_num
1.9 | to_num
true | to_num
'1e3' | str_to_num
'0xabcd' | is_hex
'xyzt' | is_hex
'ff' | is_hex
'' | is_hex
'my string' | contains_whitespace
'mystring' | contains_whitespace
'a\tb' | contains_whitespace
'snake_case_for_the_win' | to_camelcase
'snake_case_for_the_win' | to_camelcase(uppercamel=True)
'x' | to_camelcase
'camelsWillLoveThis' | to_snake_case
'HTTPServerName' | to_snake_case
'already_snake' | to_snake_case
'' | to_snake_case
'32 GB' | human_to_bytes
'32G' | human_to_bytes
'32 GB' | human_to_bytes(handle_metric=True)
'1.5 KiB' | human_to_bytes
'12' | human_to_bytes
'12' | human_to_bytes('M')
'x' | human_to_bytes
'5 parsecs' | human_to_bytes
512 | human_to_bytes
'5YiB' | human_to_bytes
'abc' | to_bytes
5 | to_bytes
'5' | check_whitelist_blacklist(whitelist=['5', '6'])
5 | check_whitelist_blacklist(blacklist='6')
'web1' | check_whitelist_blacklist(whitelist='web*')
'web1' | check_whitelist_blacklist(whitelist=['web\\d'], blacklist=['web2'])
'web1' | check_whitelist_blacklist(blacklist=['web?'])
'web1' | check_whitelist_blacklist
'web1' | check_whitelist_blacklist(whitelist=5)
'00:11:22:33:44:55' | mac_str_to_bytes
'001122334455' | mac_str_to_bytes
'x' | mac_str_to_bytes
1457456400 | strftime
1457456400 | strftime('%Y %H:%M:%S %j %A')
'1457456400' | strftime('%d.%m.%Y %H:%M')
1457456400.25 | date_format('%f %p %I %y %b %U %W %u %w %%')
'nonsense' | strftime
'10.0.0.1' | is_ip
'10.0.0.256' | is_ip
'10.0.0.1' | is_ipv4
'10.0.0.1/8' | is_ipv4
'fe80::1' | is_ipv6
'fe80::1' | is_ipv4
'::1' | is_ip(options='loopback')
'10.0.0.1' | is_ip('public')
5 | is_ip
none | is_ip
['192.168.0.1', 'fe80::', 'foo'] | ipaddr
'192.168.0.1' | ipaddr
'foo' | ipaddr
'192.168.0.1/24' | ipaddr
'192.168.0.1/255.255.255.0' | ipaddr
['192.168.0.1', '8.8.8.8', '2606:4700::1111', '::1'] | ipaddr('public')
['192.168.0.1', '8.8.8.8'] | ipaddr(options='private')
['192.168.0.1', 'fe80::'] | ipv4
['192.168.0.1', 'fe80::'] | ipv6
['FE80:0:0::1', '::ffff:1.2.3.4', '::1.2.3.4', '1:0:0:2::'] | ipv6
['224.0.0.1', '240.0.0.1', '0.0.0.0', '169.254.1.1', '127.0.0.1'] | ipv4('multicast')
['224.0.0.1', '240.0.0.1', '0.0.0.0', '169.254.1.1', '127.0.0.1'] | ipv4('reserved')
['224.0.0.1', '240.0.0.1', '0.0.0.0', '169.254.1.1', '127.0.0.1'] | ipv4('unspecified')
['224.0.0.1', '240.0.0.1', '0.0.0.0', '169.254.1.1', '127.0.0.1'] | ipv4('ll')
['224.0.0.1', '240.0.0.1', '0.0.0.0', '169.254.1.1', '127.0.0.1'] | ipv4('private, loopback')
['fec0::1', 'ff02::1', '::', 'fe80::1', 'fd00::1', '2001:db8::1'] | ipv6('site-local')
['fec0::1', 'ff02::1', '::', 'fe80::1', 'fd00::1', '2001:db8::1'] | ipv6('private')
['fec0::1', 'ff02::1', '::', 'fe80::1', 'fd00::1', '2001:db8::1'] | ipv6('multicast')
'192.168.0.12/24' | ip_host
'192.168.0.12' | ip_host
'fe80::1/64' | ip_host
['192.168.0.12/24', 'fe80::1'] | ip_host
'foo' | ip_host
'192.168.0.1/30' | network_hosts
'192.168.0.0/31' | network_hosts
'192.168.0.1' | network_hosts
'fe80::/126' | network_hosts
['192.168.0.0/30', '10.0.0.0/30'] | network_hosts
'192.168.0.1/8' | network_size
'fe80::/64' | network_size
'10.0.0.1' | network_size
['10.0.0.0/24', 'foo'] | network_size
'fe80::1' | ipwrap
'10.0.0.1' | ipwrap
['fe80::1', '10.0.0.1', 'x', '[::1]'] | ipwrap
['10.0.0.1', '192.168.1.1'] | filter_by_networks(['10.0.0.0/8'])
{'eth0': ['10.0.0.1', '1.1.1.1'], 'lo': []} | filter_by_networks(['10.0.0.0/8', '1.0.0.0/8'])
['10.0.0.1'] | filter_by_networks(['10.0.0.1/8'])
['foo'] | filter_by_networks(['10.0.0.0/8'])
['10.0.0.1'] | filter_by_networks(none)
'a' | path_join('b', '../c')
'/a' | path_join('/b', 'c.txt')
'a/' | path_join
'' | path_join('x')
'/' | path_join('..', 'x')
'a' | path_join(5)
'root' | get_uid
'no_such_user_here' | get_uid
'sh-that-is-not-there' | which
'/nonexistent' | is_empty
'/nonexistent' | is_bin_file
'/nonexistent' | is_text_file
'/etc/passwd' | is_text_file
'/etc/passwd' | is_bin_file
'/dev/null' | file_hashsum
'/dev/null' | file_hashsum(form='md5')
'/dev/null' | file_hashsum('nope')
'/nonexistent' | file_hashsum
'plain' | yaml_dquote
'a "q" \\ ü\n\t' | yaml_dquote
5 | yaml_dquote
'it\'s' | yaml_squote
'a\nb\n\nc' | yaml_squote
'x' | yaml_encode
5 | yaml_encode
1.5 | yaml_encode
1e30 | yaml_encode
true | yaml_encode
none | yaml_encode
[1] | yaml_encode
{'a': 'ü'} | json_encode_dict
['a', 1, ['b']] | json_encode_list
'2 3' | random_hash | length
['a'] | random_sample(1)
['a'] | random_shuffle
5 | random_str | length
'AA' | gen_mac | length
[1] | random_sample(2)
'abc' is match('a')
'abc' is match('b')
'ABC' is match('a', ignorecase=True)
1 is equalto(1.0)
[] is list
() is list
'x' is list
salt['test.echo']('x')
salt.test.echo({'a': [1, (2, 3)]})
salt['test.echo'](text='y')
salt['test.kwarg'](a=1, b='x')
salt['test.echo']()
salt['test.echo'](1, 2)
salt['no.such']()
salt.no.such()
salt.test.such()
'test.echo' in salt
'no.such' in salt
salt.get('test.echo')('z')
salt['test.exception']('boom')
salt['test.raise_exception']('CommandExecutionError', 'it failed')
salt['test.raise_exception']('SaltInvocationError', 'bad call')
salt['test.echo']('a: [1, 2]') | load_yaml
raise('stop here')
grains.os
grains['roles'][0]
grains.get('nope', 'default')
grains.nope
grains.nope.deeper
pillar.users.ann.uid
pillar['port'] + 1
pillar.get('users', {}).keys() | list
pillar
grains
opts.id
opts['id']
saltenv
sls
slspath ~ '|' ~ tplfile ~ '|' ~ tpldir ~ '|' ~ tpldot ~ '|' ~ slsdotpath ~ '|' ~ slscolonpath ~ '|' ~ sls_path
show_full_context()['sls']
show_full_context().tpldir
odict([('b', 1), ('a', 2)])
odict(a=1)
odict
{'a': 'one\ntwo', 'b': {'c': 'x\ty'}, 'd': ['e\nf']}
['one\ntwo']
{'a': "it's", 'b': '"q"', 'c': none, 'd': 1.0}
{'a': 'ü\n'}
nothing
nothing | default('x')
nothing | yaml
[1, nothing] | json
nothing.attr
{'a': nothing} | tojson
nothing | to_bool
nothing | regex_replace('a', 'b')
1 / 0
'a' + 1
{}['x']
[1][5]
'x' | no_such_filter
'x' is no_such_test
""".strip().splitlines()

# Each filter, test, method and operator with what it is seldom given.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "snippets.txt"), encoding="utf-8") as lines:
    EXPRESSIONS += lines.read().splitlines()

TEMPLATES = [
    "plain text\n",
    "no newline",
    "{% if grains.os == 'Debian' %}\ndeb\n{% endif %}\n",
    "{%- for name, user in pillar.users.items() %}\n{{ name }}: {{ user.uid }}\n{%- endfor %}\n",
    "{% set d = {} %}{% do d.update({'a': 1}) %}{% do d.setdefault('l', []).append(2) %}{{ d }}",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% load_yaml as d %}\na: 1\nb: [x, {{ grains.os }}]\n{% endload %}{{ d }} {{ d.b[1] }}",
    "{% load_json as d %}{\"a\": [1, null]}{% endload %}{{ d }}",
    "{% load_text as d %}some {{ 1 + 1 }} text{% endload %}[{{ d }}]",
    "{% load_yaml as d %}\na: [1\n{% endload %}",
    "{% load_json as d %}{{% endload %}",
    "{% import_yaml 'lib/data.yaml' as d %}{{ d }}",
    "{% import_json 'lib/data.json' as d %}{{ d }}",
    "{% import_text 'lib/data.txt' as d %}{{ d }}|",
    "{% import_yaml 'lib/templated.yaml' as d with context %}{{ d }}",
    "{% import_yaml 'lib/templated.yaml' as d %}{{ d.os }}{{ d.n }}",
    "a\n{% import_yaml 'lib/bad.yaml' as d %}",
    "{% import_json 'lib/bad.json' as d %}",
    "{% import_yaml 'lib/none.yaml' as d %}",
    "{% from 'lib/macros.jinja' import greet, answer %}{{ greet('x') }} {{ greet('y', end='?') }} {{ answer }}",
    "{% import 'lib/macros.jinja' as m %}{{ m.greet('x') }} {{ m.answer }}",
    "{% from 'lib/macros.jinja' import nope %}{{ nope }}",
    "x\n{% from 'lib/macros.jinja' import bad %}\n{{ bad() }}\n",
    "{% from 'lib/context.jinja' import seen, where %}{{ seen }} {{ where() }} {{ tpldir }}",
    "{% from 'lib/context.jinja' import seen, where with context %}{{ seen }} {{ where() }} {{ tpldir }}",
    "{% set dir = 'lib' %}{% from dir ~ '/macros.jinja' import greet with context %}{{ greet(grains.id) }}",
    "{% from 'lib/inner/rel.jinja' import r %}{{ r }}",
    "{% from './local.jinja' import here %}{{ here }}",
    "{% from '../lib/macros.jinja' import answer %}{{ answer }}",
    "{% from '../../etc/passwd' import answer %}{{ answer }}",
    "{% from 'lib/none.jinja' import x %}",
    "{% from 'lib/broken.jinja' import x %}",
    "1\n2\n{% include 'lib/undefined.jinja' %}\n",
    "{% include 'piece.txt' %}",
    "{% set x = 'given' %}{% include 'piece.txt' %}",
    "{% include 'none.txt' ignore missing %}ok",
    "{% include ['none.txt', 'piece.txt'] %}",
    "{% for item in ['a', 'b'] %}{% include 'loop.txt' %}{% endfor %}",
    "{% extends 'base.txt' %}{% block body %}own {{ super() }}{% endblock %}",
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(1, 3, 4, c=5) }}",
    "{% macro m() %}[{{ caller('x') }}]{% endmacro %}{% call(a) m() %}{{ a }}!{% endcall %}",
    "{% filter upper %}text{% endfilter %}{% set b %}block{% endset %}{{ b }}",
    "{% set ns = namespace(n=0) %}{% for i in [1,2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% profile as 'x' %}inside{% endprofile %}",
    "{% if %}",
    "a\nb\n{% for x in %}\n",
    "{{ 'unterminated }}",
    "{% endif %}",
    "{% if true %}",
    "{{ x | }}",
    "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\n{{ nothing }}\nline 8\nline 9\nline 10\nline 11\nline 12\nline 13\n",
    "#jinja2: {\"trim_blocks\": true, \"lstrip_blocks\": true}\n{% if true %}\n  x\n{% endif %}\ny\n",
    "#!jinja|yaml\n#jinja2: {\"trim_blocks\": true}\n{% if true %}\nx\n{% endif %}\n",
    "#jinja2: {\"line_statement_prefix\": \"%\"}\n% for i in [1, 2]\n{{ i }}\n% endfor\n",
    "#jinja2: {nonsense\n{{ 1 }}\n",
    "#jinja2: {\"variable_start_string\": \"<<\", \"variable_end_string\": \">>\"}\n<< 1 + 1 >> {{ 2 }}\n",
    "{% set x = salt['test.echo']({'a': 1}) %}{% do x.update({'b': 2}) %}{{ x }}",
    "{%- set files = ['a', 'b'] -%}\n{%- for f in files %}\n{{ f }}:\n  file.managed:\n    - contents: |\n        {{ 'one\ntwo' | indent(8) }}\n{%- endfor %}\n",
    "{% raw %}{{ raw }}{% endraw %}{# comment #}x",
    "{{ pillar.text | indent(2) }}\n{{ pillar.text | yaml_dquote }}",
    "{% set l = [3, 1, 2] %}{{ l | sort | join(',') }} {{ l | first }} {{ l | last }} {{ l | length }} {{ l | sum }}",
    "{{ {'b': 1, 'a': 2} | dictsort }} {{ {'b': 1}.items() | list }}",
    "{{ '%s-%05d' | format('x', 42) }} {{ '{}-{x}'.format(1, x=2) }} {{ '%(a)s' % {'a': 1} }}",
    "{{ 10 // 3 }} {{ 10 / 4 }} {{ 2 ** 70 }} {{ -7 % 3 }} {{ 'a' ~ 1 ~ none }}",
    "{{ ['x'] * 2 }} {{ 'abc'[1:] }} {{ [1,2,3][::-1] }} {{ 'a' in 'abc' }} {{ 1 if false else 2 }} {{ 1 if false }}",
    "{% for k, v in {'a': 1}.items() recursive %}{{ k }}{{ loop.depth }}{% endfor %}",
    "é ü {{ 'ñ' | upper }}\n",
    "{{ '<&>' }} {{ '<&>' | e }} {{ {'a': '<'} | json }}",
    "a\r\nb {{ 1 }}\r\n",
    "{{ ifelse is defined }} {{ lipsum is defined }} {{ cycler('a', 'b').next() }}",
    "{% set a, b = (1, 2) %}{{ a }}{{ b }}{% set c = [1, 2] + [3] %}{{ c }}",
]


def main(path):
    with tempfile.TemporaryDirectory() as root:
        tree = os.path.join(root, "srv")
        for name, content in FILES.items():
            full = os.path.join(tree, name)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as out:
                out.write(content)
        config = os.path.join(root, "minion")
        with open(config, "w", encoding="utf-8") as out:
            out.write(json.dumps({"id": "web1", "root_dir": root, "file_client": "local", "file_roots": {"base": [tree]}, "pki_dir": root + "/pki"}))
        opts = salt.config.minion_config(config)
        opts["grains"] = GRAINS
        functions = salt.loader.minion_mods(opts)
        cases = []
        for text in ["{{ %s }}" % line for line in EXPRESSIONS] + TEMPLATES:
            cases.append([text, render(text, functions, opts, root)])
        with open(path, "w", encoding="utf-8") as out:
            lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
            out.write('{"grains": %s,\n"pillar": %s,\n"files": %s,\n"cases": [\n%s\n]}\n' % (json.dumps(GRAINS), json.dumps(PILLAR), json.dumps(FILES), lines))


def render(text, functions, opts, root):
    try:
        result = salt.utils.templates.JINJA(text, from_str=True, to_str=True, salt=functions, grains=GRAINS, opts=dict(opts), pillar=PILLAR, saltenv="base", sls="a.b", tmplpath="/srv/salt/a/b.sls")
        return {"text": result["data"]}
    except salt.exceptions.SaltRenderError as error:
        shown = str(error.error)
        if error.line_num:
            # Without the traceback of Python, which Salt puts behind the text.
            source = text
            shown += "; line %s\n\n%s" % (error.line_num, salt.utils.stringutils.get_context(source, error.line_num, marker="    <======================"))
        return {"error": shown.replace(opts["cachedir"] + "/files/base", "ROOT").replace(root + "/srv", "ROOT")}


main(sys.argv[1])

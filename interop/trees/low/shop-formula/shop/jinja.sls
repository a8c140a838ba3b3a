{%- from 'shop/map.jinja' import shop with context %}
{%- set box = namespace(total=0) %}
{%- set names = [] %}
{%- for name, admin in shop.admins | dictsort %}
{%-   do names.append(name) %}
{%-   set box.total = box.total + admin.get('uid', 0) | int %}
{%- else %}
{%-   do names.extend(['nobody']) %}
{%- endfor %}
{%- set block %}text of {{ names | join('+') }}{% endset %}
{%- load_json as loaded %}{"a": [1, 2.5, null], "b": {"c": "d"}}{% endload %}
{%- macro shown(value) %}{{ value | json }}{% endmacro %}
{%- set sample = {'b': 1, 'a': [3, 1, 2], 'n': none, 'deep': {'x': {'y': 'z'}}} %}
{%- set copied = sample.copy() %}
{%- do copied.setdefault('new', 'set') %}
{%- set popped = copied.pop('b') %}
{%- set last_item = {'only': 1}.popitem() %}
{%- set listed = [5, 6, 7] %}
{%- do listed.insert(0, 4) %}{% do listed.remove(7) %}
{%- filter upper %}
# a comment of a filter block
{%- endfilter %}
jinja:
  test.show_notification:
    - text: {{ ('%s of %d' | format('some', names | count)) | yaml_encode }}
    - values:
        default: {{ shop.missing | default('none') }}
        d: {{ shop.missing | d('short') }}
        join: {{ names | map('upper') | join(', ') | json }}
        replace: {{ 'a-b' | replace('-', '_') }}
        select: {{ [1, none, 2] | select('number') | list | json }}
        reverse: {{ listed | reverse | list | json }}
        string: {{ 5 | string | json }}
        lower: {{ 'ABC' | lower }}
        sort: {{ ['b', 'a'] | sort | json }}
        first: {{ listed | first }}
        last: {{ listed | last }}
        traverse: {{ sample | traverse('deep:x:y', 'none') }}
        load: {{ '{a: [1]}' | load_yaml | json }}
        loadj: {{ '{"a": [1]}' | load_json | json }}
        bool: {{ 'yes' | to_bool }}
        float: {{ '2.50' | float }}
        lists: {{ listed | is_list }}
        wrap: {{ '2001:db8::1' | ipwrap }}
        search: {{ 'abc-12' | regex_search('([a-z]+)-(\\d+)') | json }}
        difference: {{ [1, 2, 3] | difference([2]) | json }}
        ip: {{ shop.listen | ipaddr | json }}
        zip: {{ [1, 2] | zip_longest([3], fillvalue=0) | list | json }}
        unique: {{ [1, 1, 2] | unique | list | json }}
        path: {{ '/srv' | path_join('a', 'b') }}
        capital: {{ 'word' | capitalize }}
        sequence: {{ 'one' | sequence | json }}
        words: {{ 'some words to wrap' | wordwrap(10) | json }}
        slice: {{ listed[1:3] | json }}
        block: {{ block }}
        loaded: {{ loaded | tojson }}
        shown: {{ shown(popped) }}
        total: {{ box.total }}
        length: {{ names | length }}
        indent: |
          {{ 'one\ntwo' | indent(10) }}
        methods:
          - |
            {{ ' x '.strip() }}{{ '//a'.lstrip('/') }}{{ 'b//'.rstrip('/') }}
          - |
            {{ 'a.b.c'.rpartition('.')[0] }} {{ 'a.b.c'.rsplit('.', 1) | json }} {{ 'a\nb'.splitlines() | json }}
          - |
            {{ 'abc'.startswith('a') }} {{ 'abc'.endswith('b') }} {{ '12'.isdigit() }} {{ 'ABC'.lower() }}
          - |
            {{ '{} and {x}'.format('one', x=2) }} {{ 'a,b'.replace(',', ';') }} {{ '-'.join(['a', 'b']) }}
          - |
            {{ sample.keys() | list | json }} {{ sample.values() | list | json }} {{ sample.items() | list | json }}
          - |
            {{ last_item | json }} {{ copied | json }} {{ listed | json }}
        tests: {{ [shop is mapping, names is iterable, names is sequence, shop.conf is string, 1 is number, none is none, shop is defined, names is sameas(names), shown is callable, names is list] | json }}
        names: {{ [tpldir, slspath, saltenv, sls, opts.get('id'), opts.id, pillar.get('firewall', {}), pillar.items() | list | length, pillar is defined] | json }}
        loop: [{% for n in [1, 2] %}{{ loop.index }}{{ '' if loop.last else ', ' }}{% endfor %}]
{% include 'shop/files/extra.sls' ignore missing %}
{% include 'shop/files/note.txt' %}

{% from "oldstyle/map.jinja" import oldstyle, sls_block with context %}
{% set ns = namespace(count=0) %}
{%- for i in range(5) if i is divisibleby 2 %}{% set ns.count = ns.count + i %}{% if i > 3 %}{% break %}{% endif %}{% endfor %}
oldstyle:
  pkg.installed:
    - name: {{ oldstyle.package }}
    - port: {{ oldstyle.port }}
    - count: {{ ns.count }}
    - opts: {{ oldstyle.opts }}
    - extra: {{ oldstyle.get('extra', 'none') }}
    - first: {{ (oldstyle.opts.keys() | list)[0] }}
    {{ sls_block({'enable': True, 'tags': ['x', 'y']}) }}
{% if grains['os_family'] in ['Debian'] and salt['test.ping']() %}
{{ sls }}-deb:
  cmd.run:
    - name: echo "{{ salt['file.dirname']('/a/b/c') }}" {{ '%s' % salt['cmd.run']('echo from cmd') }}
    - unless: test {{ "a-b-c".split('-')[1:] | join('+') }} = x
    - env: {{ [{'A': 'b'}] }}
    - v: {{ salt['slsutil.renderer'](string='{{ 1 + 1 }}', default_renderer='jinja') }}
{% endif %}

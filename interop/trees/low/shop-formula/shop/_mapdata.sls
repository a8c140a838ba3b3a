# vim: ft=sls
---
{%- set tplroot = tpldir.split("/")[0] %}
{%- from tplroot ~ "/map.jinja" import shop with context %}
{%- from tplroot ~ "/libs/mapstack.jinja" import mapstack with context %}
{%- load_yaml as stacked %}
{{ mapstack(['Y@os_family', 'skip', 'C@shop', 'stop', 'C@firewall'], {'values': 1, 'list': [1]}) }}
{%- endload %}
{%- do salt["log.debug"]("map\n" ~ shop | yaml(False)) %}
{%- do salt["log.warning"]("careful") %}
{%- do salt["log.error"]("not really") %}

shop-mapdata:
  file.managed:
    - name: /tmp/shop.yaml
    - contents: {{ salt["slsutil.serialize"]("yaml", {"shop": shop, "stacked": stacked}, default_flow_style=False, allow_unicode=True) | trim | json }}
    - context:
        map: {{ shop | yaml }}
        stacked: {{ stacked | tojson }}

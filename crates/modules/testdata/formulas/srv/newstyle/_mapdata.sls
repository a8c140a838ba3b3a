{%- set tplroot = tpldir.split("/")[0] %}
{%- from tplroot ~ "/map.jinja" import mapdata with context %}
{%- do salt["log.debug"]("### MAP.JINJA DUMP ###\n" ~ mapdata | yaml(False)) %}
{%- set output_file = "/tmp/salt_mapdata_dump.yaml" %}
{{ tplroot }}-mapdata-dump:
  file.managed:
    - name: {{ output_file }}
    - contents: |
        {{ salt['slsutil.serialize']('yaml', mapdata, default_flow_style=False, allow_unicode=True) | indent(8) }}

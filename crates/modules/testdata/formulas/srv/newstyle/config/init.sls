{#- Get the `tplroot` from `tpldir` #}
{%- set tplroot = tpldir.split('/')[0] %}
{%- set sls_package_install = tplroot ~ '.package.install' %}
{%- from tplroot ~ "/map.jinja" import mapdata as newstyle with context %}
{%- from tplroot ~ "/libs/libtofs.jinja" import files_switch with context %}

include:
  - {{ sls_package_install }}

newstyle-config-file-file-managed:
  file.managed:
    - name: {{ newstyle.config }}
    - source:
{{ files_switch(['app.conf.jinja', 'example.tmpl'], lookup='config') }}
    - mode: 644
    - user: root
    - group: {{ newstyle.rootgroup }}
    - makedirs: True
    - template: jinja
    - require:
      - sls: {{ sls_package_install }}
    - context:
        newstyle: {{ newstyle | json }}
{%- for n, user in salt['pillar.get']('users', {}) | dictsort %}
user_{{ n }}:
  user.present:
    - name: {{ n }}
    {%- if 'uid' in user %}
    - uid: {{ user.uid }}
    {%- endif %}
    - groups: {{ user.get('groups', []) | yaml }}
    - fullname: {{ user.fullname | default(n | capitalize, true) | yaml_dquote }}
{%- endfor %}

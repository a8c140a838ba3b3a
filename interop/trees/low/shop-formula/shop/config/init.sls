{%- set tplroot = tpldir.split('/')[0] %}
{%- from tplroot ~ '/map.jinja' import shop, note with context %}
{%- from tplroot ~ '/libs/switch.jinja' import files_switch, role with context %}
{%- from "shop/libs/switch.jinja" import role as plain without context %}
{%- import "shop/libs/switch.jinja" as switch %}
include:
  - shop.package.install

shop-config:
  file.managed:
    - name: {{ shop.conf }}
    - source:
      {{- files_switch(['/shop.conf', '/shop.conf.jinja']) }}
    - template: jinja
    - mode: '0644'
    - user: root
    - group: {{ 'wheel' if grains.kernel == 'FreeBSD' else 'root' }}
    - makedirs: true
    - backup: minion
    - defaults: {role: {{ plain('x') }}}
    - context:
        shop: {{ shop | json }}
        who: {{ role('admin', shop.admins) }}
        also: {{ switch.role('other') }}
    - check_cmd: [/usr/bin/shop --check]
    - show_changes: false
    - require:
      - sls: shop.package.install
    - watch_in:
      - service: shop-service

shop-service:
  service.{{ shop.wanted }}:
    - name: {{ shop.service }}
    - enable: true
    - reload: true
    - onlyif: test -x /usr/sbin/shop
    - unless:
      - test -e /etc/shop.off

extend:
  shop-package-install:
    pkg:
      - allow_updates: true
      - order: 1

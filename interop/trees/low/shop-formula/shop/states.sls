{%- from 'shop/map.jinja' import shop with context %}
shop-user:
  group.present:
    - name: shop
    - gid: 990
    - system: true
  user.present:
    - name: shop
    - fullname: Shop
    - home: /srv/shop
    - createhome: true
    - shell: /bin/false
    - groups: [shop]
    - password: '*'
    - require:
      - group: shop-user
shop-directory:
  file.directory:
    - names:
      - /srv/shop
      - /srv/shop/data:
        - clean: true
        - exclude_pat: 'E@\.keep$'
    - user: shop
    - dir_mode: '0755'
    - file_mode: '0644'
    - recurse: [user, group]
    - force: true
    - order: last
shop-absent:
  file.absent:
    - name: /etc/shop.old
    - prereq:
      - file: shop-link
shop-link:
  file.symlink:
    - name: /srv/current
    - target: /srv/shop
shop-tree:
  file.recurse:
    - name: /srv/tree
    - source: salt://shop/files
    - onchanges:
      - file: shop-directory
shop-replace:
  file.replace:
    - name: /etc/shop.ini
    - pattern: ^a=.*$
    - repl: a={{ shop.settings.workers }}
    - append_if_not_found: true
shop-lines:
  file.append:
    - name: /etc/motd
    - text: [Welcome]
shop-lines-2:
  file.line:
    - name: /etc/motd2
    - mode: ensure
    - content: x
shop-lines-3:
  file.comment:
    - name: /etc/a
    - regex: ^b
shop-lines-4:
  file.uncomment:
    - name: /etc/b
    - regex: ^b
shop-lines-5:
  file.copy:
    - name: /etc/c
    - source: /etc/d
shop-lines-6:
  file.rename:
    - name: /etc/e
    - source: /etc/f
shop-lines-7:
  file.serialize:
    - name: /etc/g
    - dataset: {a: 1}
    - dataset_pillar: firewall
    - formatter: json
shop-pillar-file:
  file.managed:
    - name: /etc/banner
    - contents_pillar: shop:banner
    - source_hash: sha256=0000000000000000000000000000000000000000000000000000000000000000
    - skip_verify: true
    - replace: false
    - umask: '022'
shop-command:
  cmd.run:
    - name: |
        echo one
        echo two
    - cwd: /
    - runas: root
    - shell: /bin/sh
    - env:
      - LANG: C
    - creates: /tmp/x
    - timeout: 5
    - watch:
      - file: shop-link
    - onfail:
      - cmd: shop-wait
    - failhard: true
    - parallel: true
shop-wait:
  cmd.wait:
    - name: echo waited
    - watch_any:
      - file: shop-link
      - file: shop-tree
    - onfail_in:
      - test: shop-fail
    - onchanges_in:
      - test: shop-note
    - listen_in:
      - service: shop-dead
shop-note:
  test.show_notification:
    - text: noted
shop-fail:
  test.fail_without_changes:
    - name: failed
shop-dead:
  service.dead:
    - name: shop-old
    - enable: false
    - listen:
      - file: shop-link
  pkg.removed:
    - pkgs: [shop-old, shop-older]
shop-enabled:
  service.enabled:
    - name: shopd
shop-enabled-2:
  service.unmasked:
    - name: shopd2
shop-running:
  service.running:
    - name: shop-helper
    - sig: shop-helper
shop-moved:
  file.managed:
    - name: /etc/shop.moved
    - create: false
shop-purged:
  pkg.purged:
    - name: shop-doc
shop-purged-2:
  pkg.latest:
    - name: shop-data
    - sources: [{shop-data: 'https://example.org/shop.deb'}]
    - options: [--force]
shop-module:
  module.run:
    - test.echo:
      - text: said
shop-module-2:
  module.wait:
    - name: test.ping
shop-archive:
  archive.extracted:
    - name: /srv/archive
    - source: https://example.org/a.tar.gz
    - archive_format: tar
    - enforce_toplevel: false
    - source_hash: md5=00000000000000000000000000000000
shop-git:
  git.latest:
    - name: https://example.org/shop.git
    - target: /srv/git
shop-git-2:
  git.cloned:
    - name: https://example.org/other.git
    - target: /srv/other
shop-git-name:
  git.config_set:
    - name: user.name
    - value: Shop
    - repo: /srv/git
shop-cron:
  cron.present:
    - name: /usr/bin/shop --night
    - minute: 5
    - identifier: SHOP
shop-cron-2:
  cron.env_present:
    - name: MAILTO
    - value: root
shop-cron-old:
  cron.absent:
    - name: /usr/bin/shop --day
shop-cron-any:
  cron.{{ 'present' if shop.admins else 'absent' }}:
    - name: /usr/bin/shop --any
shop-gone:
  user.absent:
    - name: old
  group.absent:
    - name: old
shop-python:
  pip.installed:
    - name: shop
  virtualenv.managed:
    - name: /srv/venv
shop-others:
  ini.options_present:
    - name: /etc/h.ini
    - sections: {a: {b: 1}}
  timezone.system:
    - name: Europe/Berlin
  kmod.present:
    - name: dummy
  alias.present:
    - name: root
    - target: ann
  sysctl.present:
    - name: vm.swappiness
    - value: 10
shop-hosts:
  ssh_known_hosts.present:
    - name: example.org
    - user: root
{%- for name, admin in shop.admins | dictsort %}
shop-key-{{ name }}:
  ssh_auth.present:
    - user: {{ name }}
    - names: [{{ admin.key }}]
shop-old-key-{{ name }}:
  ssh_auth.absent:
    - user: {{ name }}
    - source: salt://shop/files/old.pub
{%- endfor %}
shop-firewall:
  firewalld.present:
    - name: public
    - ports: [80/tcp]
  iptables.chain_present:
    - name: SHOP
    - table: filter
shop-rule:
  iptables.append:
    - table: filter
    - chain: SHOP
    - jump: ACCEPT
shop-first-rule:
  iptables.insert:
    - position: 1
    - table: filter
    - chain: SHOP
    - jump: LOG
{%- if grains.kernel != 'Linux' or shop.get('everywhere', true) %}
shop-elsewhere:
  macpackage.installed:
    - name: /tmp/shop.pkg
  chocolatey.installed:
    - name: shop
shop-elsewhere-gone:
  chocolatey.uninstalled:
    - name: shop
{%- endif %}

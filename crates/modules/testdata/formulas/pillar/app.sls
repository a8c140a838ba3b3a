{% set people = {'ann': {'uid': 1001, 'groups': ['a', 'b']}, 'bob': {}} %}
users: {{ people | json }}
newstyle:
  pkg: {version: '2.{{ 1 + 1 }}'}
  tofs: {files_switch: [id, os]}
oldstyle:
  opts: {b: 3}
  lookup: {conf: /etc/from-pillar}
who: {{ salt['grains.get']('os') }} {{ salt['config.get']('id') }} {{ opts.id }}

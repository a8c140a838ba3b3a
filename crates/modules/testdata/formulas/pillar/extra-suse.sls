#!jinja|yaml
suse: {{ grains['os'] }}
hashed: {{ 'x' | sha256 }}
cmd: {{ salt['cmd.run']('echo hi') }}

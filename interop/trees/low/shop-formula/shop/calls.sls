{%- set states = salt['cp.list_states']() %}
calls:
  test.show_notification:
    - text: {{ salt['cmd.run']('echo said') }}
    - answers:
        all: {{ salt['cmd.run_all']('exit 3', python_shell=True, runas='root').retcode }}
        shell: {{ salt['cmd.shell']('echo $((1 + 2))') }}
        which: {{ salt['cmd.which']('sh') | json }}
        exec: {{ salt['cmd.has_exec']('no-such-program') }}
        grain: {{ salt['grains.get']('os_family', 'none') }} {{ salt['grains.has_value']('os') }} {{ salt.grains.get('id') }}
        option: {{ salt['config.option']('id') }}
        dirname: {{ salt['file.dirname']('/etc/shop/shop.conf') }}
        joined: {{ salt['file.join']('/etc', 'shop') }}
        exists: {{ salt['file.file_exists']('/etc/passwd') }} {{ salt['file.directory_exists']('/no/such') }}
        found: {{ salt['file.find']('/etc', name='passwd', type='f', maxdepth=1, mindepth=1, print='name') | json }}
        contains: {{ salt['file.contains_regex']('/etc/passwd', '^root:') }}
        owner: {{ salt['file.get_user']('/etc/passwd') }}
        entries: {{ 'passwd' in salt['file.readdir']('/etc') }}
        user: {{ salt['user.info']('root').get('uid') }}
        mine: {{ salt['mine.get']('*', 'no.such', tgt_type='glob') | json }}
        subnet: {{ salt['network.ip_in_subnet']('192.0.2.10', '192.0.2.0/24') }} {{ salt['network.calc_net']('192.0.2.10/28') }}
        reverse: {{ salt.network.reverse_ip('192.0.2.10') }} {{ salt['network.is_loopback']('127.0.0.1') }} {{ salt['network.is_private']('10.0.0.1') }}
        addresses: {{ salt['network.ip_addrs'](cidr='203.0.113.0/24') | json }}
        match: {{ salt['match.compound']('G@os_family:Debian or E@no.*') }} {{ salt['match.filter_by']({'host*': 'here', 'other': 'there'}) }}
        shown: {{ salt['alternatives.show_current']('no-such-name') | json }}
        version: {{ salt['pkg.version_cmp']('1.0-1', '1.0-2') if grains.os_family == 'Debian' else 'other' }}
        installed: {{ salt['pkg.version']('no-such-package') | json if grains.os_family == 'Debian' else 'other' }}
        provider: {{ salt['test.provider']('cmd') }}
        states: {{ states | select('match', 'shop') | list | length if false else 'shop.calls' in states }}
        rendered: {{ salt['slsutil.renderer'](string='a: [1, {b: 2}]', default_renderer='yaml') | json }}
        serial: {{ salt['dnsutil.serial']('example.org') | string | length }}

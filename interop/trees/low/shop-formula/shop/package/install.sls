{%- set tplroot = tpldir.split('/')[0] %}
{%- from tplroot ~ '/map.jinja' import shop with context %}
shop-package-install:
  pkg.installed:
    - name: {{ shop.pkg }}
    - version: {{ shop.version | yaml_dquote }}
    - refresh: true
    - fromrepo: shop-stable
    - reload_modules: true
    - retry: {attempts: 3, until: true, interval: 60, splay: 10}
{%- if grains.os_family == 'Debian' %}
shop-package-repo:
  pkgrepo.managed:
    - humanname: Shop
    - name: deb https://deb.example.org {{ grains.oscodename }} main
    - file: /etc/apt/sources.list.d/shop.list
    - key_url: https://deb.example.org/key.asc
    - keyid: ABCD1234
    - keyserver: keys.example.org
    - clean_file: true
    - require_in:
      - pkg: shop-package-install
{%- elif grains.os_family == 'RedHat' %}
shop-package-repo:
  pkgrepo.managed:
    - name: shop
    - humanname: Shop
    - baseurl: https://rpm.example.org/{{ grains.osmajorrelease | int }}
    - gpgcheck: 1
    - gpgkey: https://rpm.example.org/key.asc
    - require_in: [{pkg: shop-package-install}]
{%- else %}
shop-package-repo:
  pkgrepo.absent:
    - name: shop
    - require_in:
      - pkg: shop-package-install
{%- endif %}

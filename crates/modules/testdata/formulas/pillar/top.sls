base:
  '*':
    - app
    - {{ 'extra-' ~ grains['os_family'] | lower }}

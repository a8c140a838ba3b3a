# -*- coding: utf-8 -*-
include:
  - .config
  - .package.install

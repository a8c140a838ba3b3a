include:
  - .package
  - .config
  - shop.states

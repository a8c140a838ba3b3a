//! YAML as Salt reads and writes it.

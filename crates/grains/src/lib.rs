//! Facts about the machine, one file per family.

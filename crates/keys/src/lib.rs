//! Minion keys: pending, accepted, rejected, denied; decided once.

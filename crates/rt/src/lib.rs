//! The seam to the outside: clock, randomness, names, connections.

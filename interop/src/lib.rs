//! The real Salt and ours, side by side.

//! Pillar: top file, matching, merging.

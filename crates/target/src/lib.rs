//! Who is meant: glob, list, pcre, grain, pillar, compound, nodegroup, subnet.

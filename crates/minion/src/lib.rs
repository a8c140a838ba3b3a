//! The agent: one link per master, running jobs, returning results.

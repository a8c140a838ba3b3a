//! Salt's disk formats: job cache, minion data cache, tokens, sessions, proc files.

//! Transport with identity: sign-in, session keys, sealed requests and publications.

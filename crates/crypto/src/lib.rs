//! Pure functions: RSA, AES with HMAC, signatures, tokens, fingerprints.

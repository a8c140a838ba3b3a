//! `x509`: certificates, certificate requests, revocation lists and private keys.

mod certificate_managed;
mod crl_managed;
mod csr_managed;
mod file;
mod pem_managed;
mod private_key_managed;
#[cfg(test)]
mod tests;

use exec::Module;

/// The module.
pub static MODULE: Module = Module::new(
    "x509",
    "Certificates, requests for them, lists of revoked ones and private keys are as wanted.",
    &[
        &certificate_managed::CERTIFICATE_MANAGED,
        &crl_managed::CRL_MANAGED,
        &csr_managed::CSR_MANAGED,
        &pem_managed::PEM_MANAGED,
        &private_key_managed::PRIVATE_KEY_MANAGED,
    ],
);

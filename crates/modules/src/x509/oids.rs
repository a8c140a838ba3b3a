//! The names of object identifiers.

/// The attributes of names that have a short name, in their order in a certificate.
pub const ATTRIBUTES: &[(&str, &str)] = &[
    ("C", "2.5.4.6"),
    ("ST", "2.5.4.8"),
    ("L", "2.5.4.7"),
    ("STREET", "2.5.4.9"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("CN", "2.5.4.3"),
    ("MAIL", EMAIL),
    ("SN", "2.5.4.4"),
    ("GN", "2.5.4.42"),
    ("UID", "0.9.2342.19200300.100.1.1"),
    ("SERIALNUMBER", "2.5.4.5"),
];

/// The short names of attributes in the text form of a name (RFC 4514).
pub const ATTRIBUTES_IN_TEXT: &[(&str, &str)] = &[
    ("CN", "2.5.4.3"),
    ("L", "2.5.4.7"),
    ("ST", "2.5.4.8"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("C", "2.5.4.6"),
    ("STREET", "2.5.4.9"),
    ("DC", DOMAIN_COMPONENT),
    ("UID", "0.9.2342.19200300.100.1.1"),
];

pub const COMMON_NAME: &str = "2.5.4.3";
pub const COUNTRY: &str = "2.5.4.6";
pub const JURISDICTION_COUNTRY: &str = "1.3.6.1.4.1.311.60.2.1.3";
pub const EMAIL: &str = "1.2.840.113549.1.9.1";
pub const DOMAIN_COMPONENT: &str = "0.9.2342.19200300.100.1.25";
/// Attributes whose values are printable strings.
pub const PRINTABLE: &[&str] = &[COUNTRY, JURISDICTION_COUNTRY, "2.5.4.5", "2.5.4.46"];

/// Longer names of arguments, which older releases used.
pub const OLD_NAMES: &[(&str, &[&str])] = &[
    ("CN", &["commonName"]),
    ("L", &["localityName"]),
    ("ST", &["stateOrProvinceName"]),
    ("O", &["organizationName"]),
    ("OU", &["organizationUnitName"]),
    ("GN", &["givenName"]),
    ("SN", &["surname"]),
    ("MAIL", &["Email", "emailAddress"]),
    ("SERIALNUMBER", &["serialNumber"]),
    ("basicConstraints", &["X509v3 Basic Constraints"]),
    ("keyUsage", &["X509v3 Key Usage"]),
    ("extendedKeyUsage", &["X509v3 Extended Key Usage"]),
    ("subjectKeyIdentifier", &["X509v3 Subject Key Identifier"]),
    ("authorityKeyIdentifier", &["X509v3 Authority Key Identifier"]),
    ("issuerAltName", &["X509v3 Issuer Alternative Name", "issuserAltName"]),
    ("authorityInfoAccess", &["Authority Information Access"]),
    ("subjectAltName", &["X509v3 Subject Alternative Name"]),
    ("crlDistributionPoints", &["X509v3 CRL Distribution Points"]),
    ("issuingDistributionPoint", &["X509v3 Issuing Distribution Point"]),
    ("certificatePolicies", &["X509v3 Certificate Policies"]),
    ("policyConstraints", &["X509v3 Policy Constraints"]),
    ("inhibitAnyPolicy", &["X509v3 Inhibit Any Policy"]),
    ("nameConstraints", &["X509v3 Name Constraints"]),
    ("noCheck", &["OCSP No Check"]),
    ("tlsfeature", &["TLS Feature"]),
    ("nsComment", &["Netscape Comment"]),
    ("nsCertType", &["Netscape Certificate Type"]),
    ("cRLNumber", &["X509v3 CRLNumber"]),
    ("deltaCRLIndicator", &["X509v3 Delta CRL Indicator"]),
    ("freshestCRL", &["x509v3 Freshest CRL"]),
];

/// Extensions by the names arguments have, in their order in a certificate.
pub const EXTENSIONS: &[(&str, &str)] = &[
    ("basicConstraints", "2.5.29.19"),
    ("keyUsage", "2.5.29.15"),
    ("extendedKeyUsage", "2.5.29.37"),
    ("subjectKeyIdentifier", SUBJECT_KEY_ID),
    ("authorityKeyIdentifier", "2.5.29.35"),
    ("issuerAltName", "2.5.29.18"),
    ("authorityInfoAccess", "1.3.6.1.5.5.7.1.1"),
    ("subjectAltName", SUBJECT_ALT_NAME),
    ("crlDistributionPoints", "2.5.29.31"),
    ("issuingDistributionPoint", "2.5.29.28"),
    ("certificatePolicies", "2.5.29.32"),
    ("policyConstraints", "2.5.29.36"),
    ("inhibitAnyPolicy", "2.5.29.54"),
    ("nameConstraints", "2.5.29.30"),
    ("noCheck", "1.3.6.1.5.5.7.48.1.5"),
    ("tlsfeature", "1.3.6.1.5.5.7.1.24"),
    ("nsComment", ""),
    ("nsCertType", ""),
    ("cRLNumber", CRL_NUMBER),
    ("deltaCRLIndicator", "2.5.29.27"),
    ("freshestCRL", "2.5.29.46"),
];

pub const SUBJECT_KEY_ID: &str = "2.5.29.14";
pub const SUBJECT_ALT_NAME: &str = "2.5.29.17";
pub const CRL_NUMBER: &str = "2.5.29.20";
/// The attribute of a request that holds the extensions it requests.
pub const EXTENSION_REQUEST: &str = "1.2.840.113549.1.9.14";

/// Extensions of revoked certificates.
pub const ENTRY_EXTENSIONS: &[(&str, &str)] =
    &[("certificateIssuer", "2.5.29.29"), ("CRLReason", "2.5.29.21"), ("invalidityDate", "2.5.29.24")];

/// Extensions that belong into lists of revoked certificates.
pub const CRL_EXTENSIONS: &[&str] = &[
    "authorityKeyIdentifier",
    "authorityInfoAccess",
    "cRLNumber",
    "deltaCRLIndicator",
    "freshestCRL",
    "issuerAltName",
    "issuingDistributionPoint",
];

/// Extensions that are only for such lists.
const ONLY_CRL: &[&str] = &["issuingDistributionPoint", "cRLNumber", "deltaCRLIndicator", "freshestCRL"];

/// Extensions that the issuer alone decides about.
const NOT_REQUESTED: &[&str] =
    &["authorityInfoAccess", "authorityKeyIdentifier", "issuerAltName", "crlDistributionPoints"];

/// Returns whether certificates have an extension.
pub fn in_certificate(name: &str) -> bool {
    !ONLY_CRL.contains(&name)
}

/// Returns whether requests may contain an extension.
pub fn in_request(name: &str) -> bool {
    in_certificate(name) && !NOT_REQUESTED.contains(&name)
}

/// The extended usages of keys by their names in arguments.
pub const USAGES: &[(&str, &str)] = &[
    ("serverAuth", "1.3.6.1.5.5.7.3.1"),
    ("clientAuth", "1.3.6.1.5.5.7.3.2"),
    ("codeSigning", "1.3.6.1.5.5.7.3.3"),
    ("emailProtection", "1.3.6.1.5.5.7.3.4"),
    ("timeStamping", "1.3.6.1.5.5.7.3.8"),
    ("OCSPSigning", "1.3.6.1.5.5.7.3.9"),
    ("msSmartcardLogin", "1.3.6.1.4.1.311.20.2.2"),
    ("pkInitKDC", "1.3.6.1.5.2.3.5"),
    ("ipsecIKE", "1.3.6.1.5.5.7.3.17"),
    ("msCodeInd", "1.3.6.1.4.1.311.2.1.21"),
    ("msCodeCom", "1.3.6.1.4.1.311.2.1.22"),
    ("msCTLSign", "1.3.6.1.4.1.311.10.3.1"),
    ("msEFS", "1.3.6.1.4.1.311.10.3.4"),
];

/// Ways to ask about a certificate.
pub const ACCESS: &[(&str, &str)] =
    &[("OCSP", "1.3.6.1.5.5.7.48.1"), ("caIssuers", "1.3.6.1.5.5.7.48.2"), ("caRepository", "1.3.6.1.5.5.7.48.5")];

pub const PRACTICE_STATEMENT: &str = "1.3.6.1.5.5.7.2.1";
pub const USER_NOTICE: &str = "1.3.6.1.5.5.7.2.2";

/// Names under which Salt shows object identifiers.
const SHOWN: &[(&str, &str)] = &[
    ("md5WithRSAEncryption", "1.2.840.113549.1.1.4"),
    ("sha1WithRSAEncryption", "1.2.840.113549.1.1.5"),
    ("sha224WithRSAEncryption", "1.2.840.113549.1.1.14"),
    ("sha256WithRSAEncryption", "1.2.840.113549.1.1.11"),
    ("sha384WithRSAEncryption", "1.2.840.113549.1.1.12"),
    ("sha512WithRSAEncryption", "1.2.840.113549.1.1.13"),
    ("rsassaPss", "1.2.840.113549.1.1.10"),
    ("ecdsa-with-SHA1", "1.2.840.10045.4.1"),
    ("ecdsa-with-SHA224", "1.2.840.10045.4.3.1"),
    ("ecdsa-with-SHA256", "1.2.840.10045.4.3.2"),
    ("ecdsa-with-SHA384", "1.2.840.10045.4.3.3"),
    ("ecdsa-with-SHA512", "1.2.840.10045.4.3.4"),
    ("dsa-with-sha1", "1.2.840.10040.4.3"),
    ("dsa-with-sha224", "2.16.840.1.101.3.4.3.1"),
    ("dsa-with-sha256", "2.16.840.1.101.3.4.3.2"),
    ("ed25519", "1.3.101.112"),
    ("ed448", "1.3.101.113"),
    ("serverAuth", "1.3.6.1.5.5.7.3.1"),
    ("clientAuth", "1.3.6.1.5.5.7.3.2"),
    ("codeSigning", "1.3.6.1.5.5.7.3.3"),
    ("emailProtection", "1.3.6.1.5.5.7.3.4"),
    ("timeStamping", "1.3.6.1.5.5.7.3.8"),
    ("OCSPSigning", "1.3.6.1.5.5.7.3.9"),
    ("msSmartcardLogin", "1.3.6.1.4.1.311.20.2.2"),
    ("pkInitKDC", "1.3.6.1.5.2.3.5"),
    ("subjectDirectoryAttributes", "2.5.29.9"),
    ("subjectKeyIdentifier", "2.5.29.14"),
    ("keyUsage", "2.5.29.15"),
    ("privateKeyUsagePeriod", "2.5.29.16"),
    ("subjectAltName", "2.5.29.17"),
    ("issuerAltName", "2.5.29.18"),
    ("basicConstraints", "2.5.29.19"),
    ("signedCertificateTimestampList", "1.3.6.1.4.1.11129.2.4.2"),
    ("signedCertificateTimestampList", "1.3.6.1.4.1.11129.2.4.5"),
    ("ctPoison", "1.3.6.1.4.1.11129.2.4.3"),
    ("msCertificateTemplate", "1.3.6.1.4.1.311.21.7"),
    ("Admissions", "1.3.36.8.3.3"),
    ("cRLReason", "2.5.29.21"),
    ("invalidityDate", "2.5.29.24"),
    ("certificateIssuer", "2.5.29.29"),
    ("nameConstraints", "2.5.29.30"),
    ("cRLDistributionPoints", "2.5.29.31"),
    ("certificatePolicies", "2.5.29.32"),
    ("policyMappings", "2.5.29.33"),
    ("authorityKeyIdentifier", "2.5.29.35"),
    ("policyConstraints", "2.5.29.36"),
    ("extendedKeyUsage", "2.5.29.37"),
    ("freshestCRL", "2.5.29.46"),
    ("inhibitAnyPolicy", "2.5.29.54"),
    ("issuingDistributionPoint", "2.5.29.28"),
    ("authorityInfoAccess", "1.3.6.1.5.5.7.1.1"),
    ("subjectInfoAccess", "1.3.6.1.5.5.7.1.11"),
    ("OCSPNoCheck", "1.3.6.1.5.5.7.48.1.5"),
    ("cRLNumber", "2.5.29.20"),
    ("deltaCRLIndicator", "2.5.29.27"),
    ("TLSFeature", "1.3.6.1.5.5.7.1.24"),
    ("OCSP", "1.3.6.1.5.5.7.48.1"),
    ("caIssuers", "1.3.6.1.5.5.7.48.2"),
    ("caRepository", "1.3.6.1.5.5.7.48.5"),
    ("id-qt-cps", "1.3.6.1.5.5.7.2.1"),
    ("id-qt-unotice", "1.3.6.1.5.5.7.2.2"),
    ("OCSPNonce", "1.3.6.1.5.5.7.48.1.2"),
];

/// The identifier to a name in one of these tables.
pub fn named(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == name).map(|(_, oid)| *oid)
}

/// The name of an identifier, where it has one that is shown.
pub fn display_name(oid: &str) -> Option<&'static str> {
    SHOWN.iter().find(|(_, known)| *known == oid).map(|(name, _)| *name)
}

/// The name of an identifier, or its numbers.
pub fn shown_or_dotted(oid: &str) -> String {
    display_name(oid).map_or_else(|| oid.to_owned(), str::to_owned)
}

#!/usr/bin/env python3
"""Records what the module x509 of the real Salt 3008.5 makes and reads.

Usage: PYTHON_OF_SALT record_x509.py > x509.json

Keys of kinds whose signatures are always the same (RSA, ed25519, ed448), serial numbers and times are given, so that ours
must make the same bytes. The keys are made for the recording and are used nowhere.
"""

import base64
import json
import os
import tempfile

BEFORE, AFTER = "2026-01-02 03:04:05", "2036-01-02 03:04:05"
CA = "/@root@/ca.crt"
CA_KEY = "/@root@/ca.key"
CASES = []


def case(fun, *args, **kwargs):
    CASES.append((fun, args, kwargs))


def certificate(**kwargs):
    given = {"signing_private_key": CA_KEY, "serial_number": 77, "not_before": BEFORE, "not_after": AFTER}
    given.update(kwargs)
    case("create_certificate", **given)


def extensions():
    for name, values in {
        "basicConstraints": [
            "critical, CA:TRUE, pathlen:1", "CA:FALSE", "CA:FALSE,pathlen:1", "pathlen:1", "CA:TRUE,pathlen:x",
            {"critical": True, "ca": True, "pathlen": 0}, {"ca": "x"}, {"pathlen": 1}, ["CA:TRUE"], {"ca": True, "pathlen": -1},
        ],
        "keyUsage": [
            "critical, cRLSign, keyCertSign", ["digitalSignature", "keyAgreement", "decipherOnly"], "critical",
            {"critical": True, "nonRepudiation": True}, ["encipherOnly"], "keyEncipherment,dataEncipherment",
        ],
        "extendedKeyUsage": [
            "critical,serverAuth,1.2.3.4,msEFS", ["clientAuth", "critical"], "2.5.29.37.0,ipsecIKE", ["bla"], "OCSPSigning",
        ],
        "subjectKeyIdentifier": ["hash", "AB:CD", "critical,hash", "xx", 5],
        "authorityKeyIdentifier": [
            "keyid:always,issuer", "keyid,issuer:always", "issuer", "keyid:always", "critical,keyid", {"keyid": "always"}, "foo",
        ],
        "authorityInfoAccess": [
            "OCSP;URI:http://o.x/,caIssuers;URI:http://m/ca.cer", "bla;URI:http://o.x/", "OCSP", "OCSP;foo:bar",
            [{"OCSP": "dirName:CN=x"}, {"1.2.3.4": "IP:::1"}], {"caIssuers": "DNS:a.b"},
        ],
        "subjectAltName": [
            "DNS:foo.bar,IP:1.2.3.4,IP:fe80::1,email:a@b.c,URI:http://x.y/a?b#c,RID:1.2.3", "critical,DNS:*.foo.bar,IP:10.0.0.0/8",
            ["dns:bücher.de", {"dirName": "CN=x,O=y"}, "critical"], ["dns: a.b", {"ip": "1.2.3.4", "email": "x@y.z"}],
            "DNS:BÜCHER.de", "DNS:a_b.de", "DNS:-a.de", "DNS:a..de", "DNS:Foo.de.", "foo", "foo:bar", "otherName:bar",
            {"dns": "x"}, "IP:bla", [{"dns": 5}], "RID:bla", "URI:HTTP://Foo.bar?#", "email:foo", "URI:urn:x:y", "URI:http://a:80/",
            [{"dirName": {"CN": "x", "C": "DE"}}], [{"dirName": ["C=DE", "CN=a\\,b+O=x"]}], "DNS:ab--c.de", "email:a@.b",
            "IP:10.0.0.0/255.0.0.0", "IP:10.0.0.1/8", "IP:fe80::/10", "DNS:почта.рф",
        ],
        "issuerAltName": ["DNS:a.b", ["email:x@y.z"]],
        "crlDistributionPoints": [
            "URI:http://a/b, URI:http://c/d", "critical,URI:http://a/b",
            [{"fullname": "URI:http://a/b", "crlissuer": "dirName:CN=x", "reasons": ["keyCompromise", "aACompromise"]}, "URI:http://x", "critical"],
            [{"relativename": "CN=x"}], [{"relativename": "CN=x", "fullname": "URI:http://a/b"}], [{}],
            [{"fullname": "URI:http://a/b", "reasons": ["bla"]}], [{"fullname": "URI:http://a/b", "reasons": ["unspecified"]}],
            [{"fullname": ["URI:http://a/b", "DNS:c"], "reasons": ["certificateHold"]}], [{"crlissuer": ["dirName:CN=y,C=DE"]}],
            [{"relativename": "CN=x,O=y"}], [{"relativename": "bla"}],
        ],
        "certificatePolicies": [
            "critical, 1.2.4.5, 1.1.3.4", "bla",
            {"critical": True, "1.2.4": ["http://x", {"organization": "o", "noticeNumbers": [1, 300], "text": "tü"}], "2.5.29.32.0": []},
            {"1.2.4": [{"organization": "o", "text": "bla"}]}, {"1.2.4": [{"organization": "o", "noticeNumbers": [1]}]},
        ],
        "policyConstraints": [
            "requireExplicitPolicy:3,inhibitPolicyMapping:1", {"critical": True, "requireExplicitPolicy": 0}, "critical",
            "critical,inhibitPolicyMapping:200",
        ],
        "inhibitAnyPolicy": [1, "critical,2", {"critical": True, "value": 3}, -1, {"critical": True}, 0],
        "nameConstraints": [
            "critical,permitted;IP:192.168.0.0/255.255.0.0,excluded;email:.com",
            {"critical": True, "permitted": ["IP:192.168.0.0/24", "email:.example.com"], "excluded": ["email:.com"]},
            {"permitted": ["dns:a.b", "IP:fe80::/10"]}, {"permitted": ["IP:192.168.0.1"]}, {"critical": True},
            {"excluded": ["dirName:CN=x"]},
        ],
        "noCheck": [True, "critical", ""],
        "tlsfeature": ["status_request", "critical,status_request,status_request_v2", ["status_request"]],
        "nsComment": ["x"],
        "nsCertType": ["x"],
    }.items():
        for value in values:
            certificate(CN="a", **{name: value})


def certificates():
    certificate(CN="ca", O="Örg", C="DE", MAIL="a@b.c", SERIALNUMBER="X 1", UID="u", ST="s", L="l", STREET="st", OU="ou", SN="sn", GN="gn")
    for subject in [
        "CN=a\\,b,O=x+OU=y,C=DE", ["C=DE", "O=x", "CN=a"], {"CN": "a", "C": "DE", "bla": "x"}, "foo=bar", "CN=\\ a\\ ", ["CN=a,O=b"],
        ["bla"], "CN=#6162", "2.5.4.4=x", "CN=a\\2cb\\c3\\bc", 5, "CN=\\#a", "",
    ]:
        certificate(subject=subject)
    certificate()
    for name, value in {"CN": ["", 5, "x" * 65], "C": ["USA"]}.items():
        for text in value:
            certificate(**{name: text})
    for digest in ["sha1", "sha224", "sha384", "SHA512", "sha512_224", "sha3_256", "sha3_512", "bla"]:
        certificate(CN="a", digest=digest)
    for key in ["ed25519", "ed448"]:
        certificate(CN="a", signing_private_key=f"/@root@/{key}.key", subjectKeyIdentifier="hash", authorityKeyIdentifier="keyid:always")
    for serial in ["xx", 0, -3, "0" * 40 + "FF", "FF" * 20, "D6:D2:DC:D8:4D:5C:C0:F4", "AB C"]:
        certificate(CN="a", serial_number=serial)
    certificate(CN="a", not_after="2055-01-01 00:00:00")
    certificate(CN="a", not_before="2030-01-01 00:00:00", not_after="2029-01-01 00:00:00")
    certificate(CN="a", not_before="x")
    certificate(commonName="a", Email="x@y.z", algorithm="sha512", bla=7, **{"X509v3 Basic Constraints": "CA:TRUE"})
    leaf = {"signing_cert": CA, "CN": "leaf"}
    certificate(**leaf)
    for key in ["rsa", "ec", "ed25519", "ed448"]:
        certificate(private_key=f"/@root@/{key}.key", subjectKeyIdentifier="hash", authorityKeyIdentifier="keyid:always,issuer:always", **leaf)
    certificate(public_key="/@root@/ec.pub", authorityKeyIdentifier="keyid", **leaf)
    certificate(csr="/@root@/leaf.csr", **leaf)
    certificate(csr="/@root@/leaf.csr", keyUsage="cRLSign", basicConstraints=None, **leaf)
    certificate(csr="/@root@/leaf.csr", private_key="/@root@/rsa.key", **leaf)
    certificate(csr="/@root@/leaf.csr", CN="self")
    certificate(private_key="/@root@/secret.key", private_key_passphrase="hunter2", **leaf)
    certificate(private_key="/@root@/secret.key", private_key_passphrase="wrong", **leaf)
    certificate(private_key="/@root@/secret.key", **leaf)
    certificate(private_key="/@root@/rsa.key", private_key_passphrase="x", **leaf)
    certificate(private_key="/@root@/rsa.key", signing_private_key="/@root@/ec.key", signing_cert=CA, CN="x")
    certificate(private_key="/@root@/none.key", **leaf)
    certificate(private_key="/@root@/text.txt", **leaf)
    certificate(csr="/@root@/text.txt", **leaf)
    certificate(CN="a", signing_policy="www")
    certificate(CN="a", signing_policy="list", subject={"CN": "mine", "O": "mine"})
    certificate(subject={"CN": "mine", "O": "mine"}, signing_policy="map")
    certificate(subject="CN=mine", signing_policy="map")
    certificate(subject=["CN=mine"], signing_policy="steps")
    certificate(CN="a", signing_policy="none")
    case("create_certificate", CN="a")
    case("create_certificate", ca_server="x", CN="a")
    for encoding in ["der", "pkcs7_pem", "pkcs7_der", "bla"]:
        certificate(CN="a", encoding=encoding)
        certificate(CN="a", encoding=encoding, append_certs=[CA])
    certificate(CN="a", append_certs=CA)
    certificate(CN="a", append_certs=["/@root@/text.txt"])
    certificate(encoding="pkcs12", **leaf, public_key="/@root@/ec.pub")


def requests():
    for key in ["rsa", "ed25519", "ed448"]:
        case("create_csr", f"/@root@/{key}.key", CN="a", subjectAltName="DNS:a.b", basicConstraints="CA:FALSE")
    for kwargs in [
        {}, {"CN": "x", "authorityKeyIdentifier": "keyid"}, {"subject": "CN=x,O=y"}, {"keyUsage": "critical,cRLSign"},
        {"digest": "sha512"}, {"digest": "bla"}, {"encoding": "der"}, {"encoding": "bla"}, {"noCheck": True, "subjectKeyIdentifier": "hash"},
        {"crlDistributionPoints": "URI:http://a/b", "CN": "y"},
    ]:
        case("create_csr", "/@root@/rsa.key", **kwargs)
    case("create_csr", "/@root@/secret.key", CN="x")
    case("create_csr", "/@root@/secret.key", private_key_passphrase="hunter2", CN="x")


def loading():
    for name in ["leaf.crt", "ca.crt", "chain.pem", "leaf.der", "leaf.p7b", "leaf.p7c", "leaf.ec.crt", "text.txt", "none", "leaf.csr", "ca.key", "plain.p12"]:
        path = f"/@root@/{name}"
        case("read_certificate", path)
        case("get_public_key", path)
        case("encode_certificate", path, "der")
        case("encode_certificate", path, append_certs=CA)
        case("verify_signature", path, CA)
        case("verify_signature", path)
        case("expired", path)
        case("expires", path, 5000)
        case("expires", path)
        case("will_expire", path, 1)
        case("get_pem_entry", path)
    for name in ["leaf.csr", "ed.csr", "leaf.crt", "text.txt"]:
        case("read_csr", f"/@root@/{name}")
        case("encode_csr", f"/@root@/{name}", "der")
        case("get_public_key", f"/@root@/{name}")
    for name in ["ca.crl", "full.crl", "leaf.crt"]:
        case("read_crl", f"/@root@/{name}")
        case("encode_crl", f"/@root@/{name}", "der")
        case("verify_crl", f"/@root@/{name}", CA)
        case("verify_crl", f"/@root@/{name}", "/@root@/ec.pub")
    for name in ["ca", "rsa", "ec", "ed25519", "ed448", "secret", "old", "ec384"]:
        path = f"/@root@/{name}.key"
        for passphrase in [None, "hunter2", "wrong"]:
            case("get_private_key_size", path, passphrase=passphrase)
            case("get_public_key", path, passphrase=passphrase)
        case("verify_private_key", path, CA)
        case("verify_private_key", path, "/@root@/ec.pub")
        case("verify_private_key", path, path)
        case("encode_private_key", path)
        case("encode_private_key", path, "der", private_key_passphrase="hunter2")
        case("encode_private_key", path, "bla")
    for name in ["secret.der", "rsa.der", "plain.p12", "secret.p12", "compat.p12"]:
        for passphrase in [None, "hunter2", "wrong"]:
            case("get_private_key_size", f"/@root@/{name}", passphrase=passphrase)
            case("encode_private_key", f"/@root@/{name}", private_key_passphrase=passphrase)
            case("get_public_key", f"/@root@/{name}", passphrase=passphrase)
    case("get_pem_entry", "/@root@/chain.pem", "CERTIFICATE")
    case("get_pem_entry", "/@root@/chain.pem", "X")
    case("get_pem_entry", "bla")
    case("get_pem_entries", "/@root@/c*.crt")
    case("read_certificates", "/@root@/c*.crt")
    case("get_signing_policy", "www")
    case("get_signing_policy", "list")
    case("get_signing_policy", "none")
    case("sign_remote_certificate", "none", {})
    case("sign_remote_certificate", "mine", {})
    case("sign_remote_certificate", "www", {}, True)
    case("sign_remote_certificate", "www", {"CN": "x"})
    case("sign_remote_certificate", "signer", {"public_key": "/@root@/ec.pub", "CN": "x", "not_before": BEFORE, "not_after": AFTER, "serial_number": 7})
    case("sign_remote_certificate", "signer", {"CN": "x"}, True)
    case("encode_certificate", CA, "pem", private_key=CA_KEY)
    case("encode_certificate", CA, "pkcs12")
    case("encode_certificate", CA, "der", append_certs=[CA])
    case("create_private_key", algo="bla")
    case("create_private_key", keysize=7)
    case("create_private_key", algo="ec", keysize=7)
    case("create_private_key", encoding="bla")
    case("create_private_key", foo=1)


OPTS = {
    "x509_signing_policies": {
        "www": {"CN": "www", "O": "policy", "keyUsage": "critical, digitalSignature"},
        "list": [{"O": "list"}, {"basicConstraints": "CA:FALSE"}],
        "map": {"subject": {"O": "theirs"}},
        "steps": {"subject": ["C=DE"]},
        "mine": {"minions": "other", "CN": "x"},
        "signer": {"signing_private_key": CA_KEY, "signing_cert": CA, "O": "remote"},
    }
}


def located(value, old, new):
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, (list, tuple)):
        return [located(item, old, new) for item in value]
    if isinstance(value, dict):
        return {located(key, old, new): located(item, old, new) for key, item in value.items()}
    return value


def files(x509, root):
    def put(name, content):
        with open(f"{root}/{name}", "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())

    def keep(name, function, *args, **kwargs):
        put(name, x509[function](*args, raw=True, **kwargs))

    for name, kwargs in {
        "ca": {}, "rsa": {}, "ec": {"algo": "ec"}, "ec384": {"algo": "ec", "keysize": 384}, "ed25519": {"algo": "ed25519"},
        "ed448": {"algo": "ed448"}, "secret": {"passphrase": "hunter2"},
    }.items():
        keep(f"{name}.key", "create_private_key", **kwargs)
    put("ec.pub", x509["get_public_key"](f"{root}/ec.key"))
    key = f"{root}/ca.key"
    times = {"not_before": BEFORE, "not_after": AFTER}
    keep("ca.crt", "create_certificate", signing_private_key=key, CN="ca", O="test", basicConstraints="critical,CA:TRUE",
         keyUsage="critical,cRLSign,keyCertSign", subjectKeyIdentifier="hash", **times)
    signed = {"signing_private_key": key, "signing_cert": f"{root}/ca.crt", **times}
    keep("leaf.csr", "create_csr", f"{root}/rsa.key", CN="leaf", subjectAltName="DNS:leaf.x", basicConstraints="critical,CA:FALSE", subjectKeyIdentifier="hash")
    keep("ed.csr", "create_csr", f"{root}/ed25519.key", subject="O=x+CN=y,C=DE")
    keep("leaf.crt", "create_certificate", csr=f"{root}/leaf.csr", CN="leaf", C="DE", authorityKeyIdentifier="keyid,issuer:always",
         certificatePolicies={"1.2.4": ["http://x", {"organization": "o", "noticeNumbers": [1, 300], "text": "t"}]},
         crlDistributionPoints=[{"fullname": "URI:http://a/b", "crlissuer": "dirName:CN=x", "reasons": ["keyCompromise"]}], **signed)
    keep("leaf.ec.crt", "create_certificate", public_key=f"{root}/ec.pub", CN="ec", tlsfeature="status_request", **signed)
    for name, encoding in {"leaf.der": "der", "leaf.p7b": "pkcs7_pem", "leaf.p7c": "pkcs7_der", "chain.pem": "pem"}.items():
        append = None if encoding == "der" else [f"{root}/ca.crt"]
        keep(name, "encode_certificate", f"{root}/leaf.crt", encoding, append_certs=append)
    container = {"encoding": "pkcs12", "private_key": f"{root}/rsa.key", "append_certs": [f"{root}/ca.crt"]}
    keep("plain.p12", "encode_certificate", f"{root}/leaf.crt", **container)
    keep("secret.p12", "encode_certificate", f"{root}/leaf.crt", pkcs12_passphrase="hunter2", pkcs12_friendlyname="fü", **container)
    keep("compat.p12", "encode_certificate", f"{root}/leaf.crt", pkcs12_passphrase="hunter2", pkcs12_encryption_compat=True, **container)
    keep("secret.der", "encode_private_key", f"{root}/rsa.key", "der", passphrase="hunter2")
    keep("rsa.der", "encode_private_key", f"{root}/rsa.key", "der")
    keep("ca.crl", "create_crl", key, [], signing_cert=f"{root}/ca.crt")
    keep("full.crl", "create_crl", key, [
        {"serial_number": "D6:D2:DC", "revocation_date": BEFORE, "extensions": {"CRLReason": "keyCompromise", "invalidityDate": AFTER}},
        {"certificate": f"{root}/leaf.crt", "revocation_date": AFTER, "extensions": {"CRLReason": "critical,removeFromCRL", "certificateIssuer": "DNS:a.b"}},
        {"serial_number": 5, "revocation_date": BEFORE},
    ], signing_cert=f"{root}/ca.crt", extensions={
        "cRLNumber": 7, "authorityKeyIdentifier": "keyid:always,issuer:always", "deltaCRLIndicator": "critical,3", "freshestCRL": "URI:http://f/",
        "issuingDistributionPoint": {"critical": True, "fullname": "URI:http://a/b", "onlysomereasons": ["keyCompromise"], "onlyCA": True},
        "issuerAltName": "DNS:x.y",
    })
    put("text.txt", "plain text")
    from cryptography.hazmat.primitives import serialization
    with open(f"{root}/rsa.key", "rb") as file:
        loaded = serialization.load_pem_private_key(file.read(), None)
    old = serialization.PrivateFormat.TraditionalOpenSSL
    put("old.key", loaded.private_bytes(serialization.Encoding.PEM, old, serialization.BestAvailableEncryption(b"hunter2")))


def plain(value):
    if isinstance(value, bytes):
        try:
            return {"bytes": value.decode("ascii")}
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def record(x509, root):
    extensions()
    certificates()
    requests()
    loading()
    recorded = []
    for fun, args, kwargs in CASES:
        entry = {"fun": fun, "args": args, "kwargs": kwargs}
        try:
            answer = x509[fun](*located(args, "/@root@", root), **located(kwargs, "/@root@", root))
            entry["result"] = located(plain(answer), root, "/@root@")
        except BaseException as error:  # pylint: disable=broad-except
            entry["raises"] = [type(error).__name__, str(error).replace(root, "/@root@")]
        recorded.append(entry)
    return recorded


def main():
    import salt.config
    import salt.loader

    with tempfile.TemporaryDirectory() as base:
        with open(base + "/minion", "w", encoding="utf-8") as file:
            file.write(f"root_dir: {base}\nid: recorder\nfile_client: local\nlog_level: quiet\n")
        opts = salt.config.minion_config(base + "/minion")
        opts["grains"] = salt.loader.grains(opts)
        root = base + "/work"
        os.mkdir(root)
        opts.update(located(OPTS, "/@root@", root))
        functions = salt.loader.minion_mods(opts)
        x509 = {name[5:]: functions[name] for name in functions if name.startswith("x509.")}
        files(x509, root)
        cases = record(x509, root)
        contents = {}
        for name in sorted(os.listdir(root)):
            with open(f"{root}/{name}", "rb") as file:
                contents[name] = base64.b64encode(file.read()).decode()
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False, default=str) for entry in cases)
    print(json.dumps({"files": contents, "opts": OPTS}, indent=0)[:-2] + ',\n"cases": [\n' + lines + "\n]}")


if __name__ == "__main__":
    main()

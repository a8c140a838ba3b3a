#!/usr/bin/env python3
"""Records what the states x509 of the real Salt 3008.5 come to, one after the other in one directory.

Usage: PYTHON_OF_SALT record_x509.py > x509.json

The keys and certificates are those of the recording of the execution module, so that both sides begin with the same files.
"""

import base64
import json
import os
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = os.path.join(HERE, "..", "..", "modules", "testdata", "x509.json")
BEFORE, AFTER = "2026-01-02 03:04:05", "2036-01-02 03:04:05"
ROOT = "/@root@"
STEPS = []


def step(fun, name, test=False, **kwargs):
    STEPS.append({"fun": fun, "name": f"{ROOT}/{name}", "test": test, "kwargs": kwargs})


def both(fun, name, **kwargs):
    """In a test, for real, and once more."""
    step(fun, name, test=True, **kwargs)
    step(fun, name, **kwargs)
    step(fun, name, **kwargs)


def certificates():
    own = {"signing_private_key": f"{ROOT}/ca.key", "serial_number": 77, "not_before": BEFORE, "not_after": AFTER}
    both("certificate_managed", "new.crt", CN="new", **own)
    both("certificate_managed", "new.crt", CN="newer", O="x", **own)
    both("certificate_managed", "new.crt", CN="newer", O="x", basicConstraints="critical,CA:TRUE", **own)
    both("certificate_managed", "new.crt", CN="newer", O="x", basicConstraints="CA:TRUE", keyUsage="cRLSign", **own)
    both("certificate_managed", "new.crt", CN="newer", O="x", keyUsage="cRLSign", digest="sha512", **own)
    both("certificate_managed", "new.crt", CN="newer", O="x", keyUsage="cRLSign", digest="sha512", append_certs=f"{ROOT}/ca.crt", **own)
    both("certificate_managed", "new.crt", CN="newer", O="x", keyUsage="cRLSign", digest="sha512", encoding="der", **own)
    both("certificate_managed", "new.crt", CN="newer", O="x", keyUsage="cRLSign", digest="sha512", encoding="pkcs7_pem", mode="0600", **own)
    both("certificate_managed", "new.crt", CN="newer", O="x", keyUsage="cRLSign", digest="sha512", encoding="pkcs7_pem", mode="0640", **own)
    both("certificate_managed", "new.crt", **{**own, "CN": "newer", "O": "x", "serial_number": "FF"})
    both("certificate_managed", "new.crt", **{**own, "CN": "x", "signing_private_key": f"{ROOT}/ed25519.key"})
    both("certificate_managed", "new.crt", CN="x", days_remaining=5000, **own)
    both("certificate_managed", "deep/er/new.crt", CN="new", makedirs=True, **own)
    step("certificate_managed", "no/dir/new.crt", CN="new", **own)
    step("certificate_managed", "other.crt", CN="new", create=False, **own)
    step("certificate_managed", "other.crt", CN="new", encoding="bla", **own)
    step("certificate_managed", "other.crt", CN="new", keyUsage=["encipherOnly"], **own)
    step("certificate_managed", "text.txt", test=True, CN="new", **own)
    step("certificate_managed", "other.crt", CN="new")
    signed = {**own, "signing_cert": f"{ROOT}/ca.crt"}
    leaf = {
        "CN": "leaf", "C": "DE", "authorityKeyIdentifier": "keyid,issuer:always", "csr": f"{ROOT}/leaf.csr",
        "certificatePolicies": {"1.2.4": ["http://x", {"organization": "o", "noticeNumbers": [1, 300], "text": "t"}]},
        "crlDistributionPoints": [{"fullname": "URI:http://a/b", "crlissuer": "dirName:CN=x", "reasons": ["keyCompromise"]}],
    }
    signed.pop("serial_number")
    step("certificate_managed", "leaf.crt", test=True, **signed, **leaf)
    step("certificate_managed", "leaf.crt", **signed, **leaf)
    step("certificate_managed", "leaf.crt", test=True, **{**signed, **leaf, "csr": None, "private_key": f"{ROOT}/ec.key"})
    step("certificate_managed", "leaf.crt", test=True, **{**signed, **leaf, "signing_cert": f"{ROOT}/leaf.ec.crt"})
    container = {**signed, **leaf, "encoding": "pkcs12", "private_key": f"{ROOT}/rsa.key", "append_certs": [f"{ROOT}/ca.crt"]}
    step("certificate_managed", "plain.p12", test=True, **container)
    step("certificate_managed", "secret.p12", test=True, **container)
    step("certificate_managed", "secret.p12", test=True, pkcs12_passphrase="wrong", **container)
    step("certificate_managed", "secret.p12", test=True, pkcs12_passphrase="hunter2", **container)
    step("certificate_managed", "secret.p12", test=True, pkcs12_passphrase="hunter2", pkcs12_friendlyname="fü", **container)
    both("certificate_managed", "compat.p12", pkcs12_passphrase="hunter2", pkcs12_friendlyname="name", **container)
    both("certificate_managed", "policy.crt", signing_policy="www", CN="mine", OU="ou", **own)
    both("certificate_managed", "link.crt", CN="new", **own)


def lists():
    key = {"signing_private_key": f"{ROOT}/ca.key", "signing_cert": f"{ROOT}/ca.crt"}
    revoked = [{"serial_number": "D6:D2:DC", "revocation_date": BEFORE, "extensions": {"CRLReason": "keyCompromise"}}]
    both("crl_managed", "new.crl", revoked=[], **key)
    both("crl_managed", "new.crl", revoked=revoked, **key)
    both("crl_managed", "new.crl", revoked=revoked + [{"certificate": f"{ROOT}/leaf.crt", "revocation_date": BEFORE}], **key)
    revoked = [{"serial_number": "D6:D2:DC", "revocation_date": BEFORE, "extensions": {"CRLReason": "superseded"}}]
    both("crl_managed", "new.crl", revoked=revoked, **key)
    both("crl_managed", "new.crl", revoked=revoked, extensions={"cRLNumber": 7, "authorityKeyIdentifier": "keyid:always"}, **key)
    both("crl_managed", "new.crl", revoked=revoked, extensions={"cRLNumber": "auto", "authorityKeyIdentifier": "keyid:always"}, **key)
    both("crl_managed", "new.crl", revoked=[], extensions={"cRLNumber": "auto", "authorityKeyIdentifier": "keyid:always"}, **key)
    both("crl_managed", "new.crl", revoked=[], extensions={"cRLNumber": "auto", "authorityKeyIdentifier": "keyid:always"}, encoding="der", **key)
    both("crl_managed", "new.crl", revoked=[], digest="sha512", **key)
    both("crl_managed", "new.crl", revoked=[], digest="sha512", days_remaining=200, **key)
    both("crl_managed", "auto.crl", revoked=[], extensions={"cRLNumber": "auto"}, **key)
    step("crl_managed", "auto.crl", revoked=[], foo=1, **key)
    step("crl_managed", "auto.crl", revoked=[{}], **key)
    step("crl_managed", "text.txt", test=True, revoked=[], **key)
    both("crl_managed", "old.crl", revoked=[{"x": [{"serial_number": "05"}, {"reason": "superseded"}]}], **key)


def requests():
    key = {"private_key": f"{ROOT}/rsa.key"}
    both("csr_managed", "new.csr", CN="new", **key)
    both("csr_managed", "new.csr", CN="newer", subjectAltName="DNS:a.b", **key)
    both("csr_managed", "new.csr", CN="newer", subjectAltName="DNS:a.c", keyUsage="cRLSign", **key)
    both("csr_managed", "new.csr", subject="CN=newer,O=x", digest="sha512", encoding="der", **key)
    both("csr_managed", "new.csr", subject="CN=newer,O=x", digest="sha512", encoding="pem", **key)
    both("csr_managed", "new.csr", CN="x", private_key=f"{ROOT}/ed448.key")
    step("csr_managed", "leaf.csr", CN="leaf", subjectAltName="DNS:leaf.x", basicConstraints="critical,CA:FALSE", subjectKeyIdentifier="hash", **key)
    step("csr_managed", "text.txt", test=True, CN="x", **key)
    step("csr_managed", "bad.csr", CN="x", private_key=f"{ROOT}/secret.key")
    step("csr_managed", "bad.csr", CN="x", encoding="bla", **key)


def keys():
    for algo in ["rsa", "ec", "ed25519", "ed448"]:
        both("private_key_managed", f"new_{algo}.key", algo=algo)
    both("private_key_managed", "new_rsa.key", algo="ec")
    both("private_key_managed", "new_rsa.key", algo="ec", keysize=384)
    both("private_key_managed", "new_rsa.key", algo="ec", keysize=384, passphrase="hunter2")
    both("private_key_managed", "new_rsa.key", algo="ec", keysize=384, passphrase="other")
    both("private_key_managed", "new_rsa.key", algo="ec", keysize=384, passphrase="other", overwrite=True)
    both("private_key_managed", "new_rsa.key", algo="ec", keysize=384)
    both("private_key_managed", "new_rsa.key", algo="ec", keysize=384, overwrite=True)
    both("private_key_managed", "new_rsa.key", algo="ec", keysize=384, encoding="der", mode="0600")
    both("private_key_managed", "new_rsa.key", algo="ec", keysize=384, encoding="pkcs12", mode="0600")
    both("private_key_managed", "new_rsa.key", algo="ec", keysize=384, new=True)
    step("private_key_managed", "new_ed25519.key", algo="ed25519", keysize=3)
    step("private_key_managed", "bad.key", algo="foo")
    step("private_key_managed", "bad.key", keysize=5)
    step("private_key_managed", "bad.key", encoding="foo")
    step("private_key_managed", "bad.key", foo=5)
    step("private_key_managed", "text.txt")
    step("private_key_managed", "text.txt", test=True, overwrite=True)
    both("private_key_managed", "old.key", passphrase="hunter2")
    for name in ["ca.key", "secret.key"]:
        step("private_key_managed", name, passphrase="hunter2" if name == "secret.key" else None)
        step("private_key_managed", name, test=True, bits=4096, passphrase="hunter2" if name == "secret.key" else None)


def pems():
    text = "-----BEGIN CERTIFICATE-----\n" + "A" * 70 + " BB\n-----END CERTIFICATE-----"
    both("pem_managed", "text.pem", text=text)
    both("pem_managed", "text.pem", text=text.replace("BB", "CC"), mode="0600")
    step("pem_managed", "text.pem", text="bla")
    step("pem_managed", "text.pem", text=text, foo=1)


def located(value, old, new):
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, (list, tuple)):
        return [located(item, old, new) for item in value]
    if isinstance(value, dict):
        return {located(key, old, new): located(item, old, new) for key, item in value.items()}
    return value


def outcome(returned):
    if not isinstance(returned, dict):
        return {"raises": str(returned)}
    parts = {}
    for tag, result in returned.items():
        comment = str(result["comment"])
        if "Traceback" in comment:
            comment = "exception: " + comment.strip().splitlines()[-1]
        parts[tag.split("_|-", 1)[0]] = {"result": result["result"], "changes": result["changes"], "comment": comment}
    return parts


def main():
    import salt.client
    import salt.config
    import salt.loader

    certificates()
    lists()
    requests()
    keys()
    pems()
    with open(FILES, encoding="utf-8") as file:
        recording = json.load(file)
    with tempfile.TemporaryDirectory() as base:
        root = base + "/work"
        os.mkdir(root)
        with open(base + "/minion", "w", encoding="utf-8") as file:
            file.write(f"root_dir: {base}\nid: recorder\nfile_client: local\nlog_level: quiet\n")
        opts = salt.config.minion_config(base + "/minion")
        opts["grains"] = salt.loader.grains(opts)
        opts.update(located(recording["opts"], ROOT, root))
        functions = salt.client.Caller(mopts=opts).sminion.functions
        for name, content in recording["files"].items():
            with open(f"{root}/{name}", "wb") as file:
                file.write(base64.b64decode(content))
            os.chmod(f"{root}/{name}", 0o400 if name.endswith(".key") else 0o644)
        os.symlink(f"{root}/behind.crt", f"{root}/link.crt")
        for entry in STEPS:
            given = located(entry["kwargs"], ROOT, root)
            name = entry["name"].replace(ROOT, root)
            returned = functions["state.single"](f"x509.{entry['fun']}", name, test=entry["test"], **given)
            entry["salt"] = located(outcome(returned), root, ROOT)
            if os.path.isfile(name):
                entry["mode"] = oct(os.stat(name).st_mode & 0o7777)
    print("[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in STEPS) + "\n]")


if __name__ == "__main__":
    main()

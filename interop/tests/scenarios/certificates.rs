//! Certificates that one minion has another one sign through the master, with Saltern and Salt on both sides.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use interop::{Checks, Master, Minion, MinionBuilder, Salt, Sandbox, missing, scenario};
use serde_json::{Value, json};

const LINE: &str = "3008.5";

/// Minions that sign.
const SIGNERS: [&str; 2] = ["ca-ours", "ca-theirs"];
/// Minions that may request certificates.
const WEB: [&str; 2] = ["web-ours", "web-theirs"];
/// Pairs of a signer and a requester, without those in which both are Salt's.
const PAIRS: [(&str, &str); 3] = [("ca-ours", "web-ours"), ("ca-ours", "web-theirs"), ("ca-theirs", "web-ours")];
/// A Saltern minion that may ask signers, but that no policy permits.
const STRANGER: &str = "stranger";

/// A signer creates its key and its own certificate.
const SIGNER_TREE: &str = r#"
ROOT/{{ grains.id }}.key:
  x509.private_key_managed:
    - algo: ec
ROOT/{{ grains.id }}.crt:
  x509.certificate_managed:
    - signing_private_key: ROOT/{{ grains.id }}.key
    - CN: {{ grains.id }}
    - basicConstraints: "critical, CA:true"
    - keyUsage: "critical, cRLSign, keyCertSign"
    - subjectKeyIdentifier: hash
    - days_valid: 30
"#;

/// The others create a key and have it signed.
const ASKER_TREE: &str = r#"
{% set place = 'ROOT/' ~ grains.id ~ '-of-' ~ pillar.signer %}
{{ place }}.key:
  x509.private_key_managed:
    - algo: ec
{{ place }}.crt:
  x509.certificate_managed:
    - ca_server: {{ pillar.signer }}
    - signing_policy: {{ pillar.policy }}
    - private_key: {{ place }}.key
    - CN: {{ grains.id }}
    - O: mine
    - days_valid: 99
    - days_remaining: 3
"#;

struct House {
    master: Master,
    root: PathBuf,
    _minions: Vec<Minion>,
}

#[test]
fn minions_sign_for_others_by_our_master() {
    certificates(Salt::ours, &PAIRS);
}

#[test]
fn minions_sign_for_others_by_the_real_master() {
    certificates(|| Salt::real(LINE).context("checked before"), &PAIRS[1..]);
}

fn certificates(of_master: impl Fn() -> Result<Salt>, pairs: &[(&str, &str)]) {
    if missing(&[LINE]) {
        return;
    }
    scenario("certificates by another minion", |sandbox| {
        let real = Salt::real(LINE).context("checked above")?;
        let house = House::new(sandbox, &of_master()?, &real)?;
        let mut checks = Checks::new();
        for (signer, asker) in pairs {
            checks.check(format!("{signer} signs for {asker}"), || house.signs(signer, asker));
        }
        for signer in SIGNERS {
            checks.check(format!("{signer} refuses {STRANGER}"), || house.refuses(signer));
        }
        checks.finish()
    });
}

impl House {
    fn new(sandbox: &Sandbox, of_master: &Salt, real: &Salt) -> Result<Self> {
        let (ours, root) = (Salt::ours()?, sandbox.folder("pki")?);
        let peer = json!({"(web|stranger).*": ["x509.sign_remote_certificate"]});
        let built = Master::build(of_master, "master").option("auto_accept", true).option("peer", peer);
        let master = built.option("peer_run", json!({"ca-.*": ["match.compound_matches"]})).start(sandbox)?;
        for (name, text) in [("signer.sls", SIGNER_TREE), ("asker.sls", ASKER_TREE)] {
            master.serve(name, text.replace("ROOT", &root.to_string_lossy()).as_bytes())?;
        }
        let start = |id: &&str| {
            let salt = if id.ends_with("theirs") { real } else { &ours };
            with_policies(Minion::build(salt, id).master(&master), id, &root)?.start(sandbox)
        };
        let ids = [&SIGNERS[..], &WEB, &[STRANGER]].concat();
        let minions = ids.iter().map(start).collect::<Result<_>>()?;
        master.wait_answering(&ids)?;
        let house = House { master, root, _minions: minions };
        for signer in SIGNERS {
            let told = house.master.ask(signer, &["state.apply", "signer"])?;
            ensure!(results(&told)?.iter().all(|result| result["result"] == true), "{told}");
        }
        Ok(house)
    }

    fn ask(&self, asker: &str, signer: &str, policy: &str, more: &[&str]) -> Result<Value> {
        let pillar = format!("pillar={}", json!({"signer": signer, "policy": policy}));
        self.master.ask(asker, &[&["state.apply", "asker", &pillar], more].concat())
    }

    fn signs(&self, signer: &str, asker: &str) -> Result<()> {
        let place = self.root.join(format!("{asker}-of-{signer}.crt")).display().to_string();
        let told = self.ask(asker, signer, "www", &["test=True"])?;
        ensure!(results(&told)?.iter().all(|result| result["result"] == Value::Null), "{told}");
        ensure!(!Path::new(&place).exists(), "a test has made {place}");
        let told = self.ask(asker, signer, "www", &[])?;
        ensure!(results(&told)?.iter().all(|result| result["result"] == true), "{told}");
        self.is_as_the_policy_says(signer, asker, &place)?;
        // A second run requests the policy only, and no certificate.
        let first = fs::read(&place)?;
        let told = self.ask(asker, signer, "www", &[])?;
        ensure!(results(&told)?.iter().all(|result| result["changes"] == json!({})), "{told}");
        ensure!(fs::read(&place)? == first, "{place} was made anew");
        // Another policy requires a new certificate. This policy permits minions by a grain.
        let told = self.ask(asker, signer, "by-grain", &[])?;
        ensure!(results(&told)?.iter().all(|result| result["result"] == true), "{told}");
        let read = self.master.ask(asker, &["x509.read_certificate", &place])?;
        ensure!(read["subject"]["O"] == "by grain", "{read}");
        Ok(())
    }

    fn is_as_the_policy_says(&self, signer: &str, asker: &str, place: &str) -> Result<()> {
        let read = self.master.ask(asker, &["x509.read_certificate", place])?;
        let names = json!({"CN": asker, "O": "policy"});
        // The policy wins over the state: `O: mine` in the tree must not end up in the certificate.
        ensure!(read["subject"] == names && read["issuer"]["CN"] == signer, "{read}");
        ensure!(read["extensions"]["keyUsage"]["keyEncipherment"] == true, "{read}");
        let signers = self.root.join(format!("{signer}.crt")).display().to_string();
        for id in WEB {
            let verified = self.master.ask(id, &["x509.verify_signature", place, &signers])?;
            ensure!(verified == true, "{id} does not verify the signature: {verified}");
        }
        let key = place.replace(".crt", ".key");
        let fits = self.master.ask(asker, &["x509.verify_private_key", &key, place])?;
        ensure!(fits == true, "the certificate is not that of {key}: {fits}");
        let copies = fs::read_dir(self.copies(signer))?.count();
        ensure!(copies > 0, "{signer} has kept no copy");
        Ok(())
    }

    fn refuses(&self, signer: &str) -> Result<()> {
        for (policy, why) in [
            ("www", "minion not permitted to use specified signing policy"),
            ("by-grain", "minion not permitted to use specified signing policy"),
            ("none", "signing_policy must be specified and defined on signing minion"),
        ] {
            let told = self.ask(STRANGER, signer, policy, &[])?;
            let refused = results(&told)?.into_iter().find(|result| result["result"] == false);
            let comment = refused.map(|result| result["comment"].to_string()).unwrap_or_default();
            ensure!(comment.contains(why), "expected '{why}' for the policy {policy} in {told}");
        }
        let place = self.root.join(format!("{STRANGER}-of-{signer}.crt"));
        ensure!(!place.exists(), "the stranger has {}", place.display());
        // A minion without peer permission gets no answer.
        let other = SIGNERS.into_iter().find(|other| *other != signer).unwrap_or_default();
        let told = self.ask(other, signer, "www", &[])?;
        ensure!(told.to_string().contains("Salt master must permit peers"), "{told}");
        Ok(())
    }

    fn copies(&self, signer: &str) -> PathBuf {
        self.root.join(format!("issued-by-{signer}"))
    }
}

/// Sets the policies of signers, and the grain of permitted minions.
fn with_policies(minion: MinionBuilder, id: &str, root: &Path) -> Result<MinionBuilder> {
    let minion = minion.option("features", json!({"x509_v2": true}));
    if WEB.contains(&id) {
        return Ok(minion.option("grains", json!({"role": "web"})));
    }
    if !SIGNERS.contains(&id) {
        return Ok(minion);
    }
    let copies = root.join(format!("issued-by-{id}"));
    fs::create_dir(&copies)?;
    let (key, cert) = (root.join(format!("{id}.key")), root.join(format!("{id}.crt")));
    let policy = |minions: &str, organization: &str| {
        json!([
            {"minions": minions}, {"signing_private_key": key}, {"signing_cert": cert}, {"O": organization},
            {"keyUsage": "critical, keyEncipherment"}, {"authorityKeyIdentifier": "keyid:always"}, {"days_valid": 10},
            {"copypath": copies},
        ])
    };
    // One policy by id and one by grain: for the latter a signer must ask the master, since the grains in a request are
    // only claims of the requester.
    let policies = json!({"www": policy("web-*", "policy"), "by-grain": policy("G@role:web", "by grain")});
    Ok(minion.option("x509_signing_policies", policies))
}

/// Returns the results of the key and of the certificate.
fn results(told: &Value) -> Result<Vec<&Value>> {
    let all = told.as_object().with_context(|| format!("the run told {told}"))?;
    let own: Vec<_> = all.iter().filter(|(tag, _)| tag.starts_with("x509_")).map(|(_, result)| result).collect();
    ensure!(own.len() == 2, "expected two states in {told}");
    Ok(own)
}

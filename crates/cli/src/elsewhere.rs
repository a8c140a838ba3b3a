//! Programs of Salt that Saltern does not have, and what to do instead.

/// The name, and why the program is missing and what does its work.
const PROGRAMS: [(&str, &str); 7] = [
    ("salt-cloud", "machines are not created; use the tools of your cloud and let new minions sign in by themselves"),
    ("salt-extend", "there is no Salt source tree to extend; new modules are written in Rust (see CONTRIBUTING.md)"),
    ("salt-pip", "no Python runs inside; install Python packages with the pip state or module"),
    ("salt-proxy", "there are no proxy minions; run a minion on the device, or cmd.run on a minion beside it"),
    (
        "salt-ssh",
        "hosts without a minion are not managed; install a minion, or copy the program there and use salt-call --local",
    ),
    ("salt-syndic", "masters are not chained; give each minion the list of all its masters"),
    ("spm", "there is no package manager for formulas; use gitfs or put them into file_roots"),
];

/// Returns the sentence about a program of Salt that is missing here.
pub fn sentence(name: &str) -> Option<String> {
    let (name, why) = PROGRAMS.iter().find(|(known, _)| *known == name)?;
    Some(format!("{name} is not part of Saltern: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_salts_programs_is_here_or_explained() {
        // The programs that Salt 3006 to 3008 install.
        let salts = [
            "salt",
            "salt-api",
            "salt-call",
            "salt-cloud",
            "salt-cp",
            "salt-extend",
            "salt-key",
            "salt-master",
            "salt-minion",
            "salt-pip",
            "salt-proxy",
            "salt-run",
            "salt-ssh",
            "salt-syndic",
            "spm",
        ];
        for name in salts {
            assert!(crate::args::Program::from_name(name).is_some() != sentence(name).is_some(), "{name}");
        }
        assert_eq!(sentence("salt-nonsense"), None);
    }
}

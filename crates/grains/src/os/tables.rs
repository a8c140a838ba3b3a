//! Salt's mapping from names of distributions to grains, sorted.

/// From the full name, without "Linux" and blanks, in lower case, its first ten characters, to the grain `os`.
pub const NAMES: &[(&str, &str)] = &[
    ("Junos", "Junos"),
    ("alibabaclo", "Alinux"),
    ("almalinux", "AlmaLinux"),
    ("almalinuxk", "AlmaLinux"),
    ("alt", "ALT"),
    ("amazonami", "Amazon"),
    ("antergos", "Antergos"),
    ("arch", "Arch"),
    ("archarm", "Arch ARM"),
    ("chapeau", "Chapeau"),
    ("cloudlinux", "CloudLinux"),
    ("cloudserve", "CloudLinux"),
    ("debian", "Debian"),
    ("enterprise", "OEL"),
    ("fedoraremi", "Fedora"),
    ("gentoobase", "Gentoo"),
    ("korora", "Korora"),
    ("linuxmint", "Mint"),
    ("manjaro", "Manjaro"),
    ("manjarolin", "Manjaro"),
    ("mendel", "Mendel"),
    ("neon", "KDE neon"),
    ("nilrt", "NILinuxRT"),
    ("oracleserv", "OEL"),
    ("photon", "VMware Photon OS"),
    ("pidora", "Fedora"),
    ("poky", "Poky"),
    ("pop", "Pop"),
    ("raspbian", "Raspbian"),
    ("redhatente", "RedHat"),
    ("rocky", "Rocky"),
    ("scientific", "ScientificLinux"),
    ("sles", "SUSE"),
    ("slesexpand", "RES"),
    ("synology", "Synology"),
    ("univention", "Univention"),
    ("virtuozzo", "Virtuozzo"),
    ("void", "Void"),
];

/// From `ID` and `NAME` of os-release to the grain `os`, where the name alone would give another one.
pub const NAMES_BY_ID: &[(&str, &str, &str)] = &[
    ("astra", "Astra Linux (Orel)", "AstraLinuxCE"),
    ("astra", "Astra Linux (Smolensk)", "AstraLinuxSE"),
    ("pop", "Pop!_OS", "Pop"),
];

/// From the grain `os` to the grain `os_family`; an `os` that is not listed is its own family.
pub const FAMILIES: &[(&str, &str)] = &[
    ("ALT", "RedHat"),
    ("Alinux", "RedHat"),
    ("AlmaLinux", "RedHat"),
    ("AlmaLinux Kitten", "RedHat"),
    ("AlterOS", "RedHat"),
    ("Amazon", "RedHat"),
    ("Antergos", "Arch"),
    ("Arch ARM", "Arch"),
    ("AstraLinuxCE", "Debian"),
    ("AstraLinuxSE", "Debian"),
    ("Bluewhite64", "Bluewhite"),
    ("CentOS", "RedHat"),
    ("CentOS Stream", "RedHat"),
    ("Chapeau", "RedHat"),
    ("CloudLinux", "RedHat"),
    ("Cumulus", "Debian"),
    ("Deepin", "Debian"),
    ("Devuan", "Debian"),
    ("EndeavourOS", "Arch"),
    ("FedBerry", "RedHat"),
    ("Fedora", "RedHat"),
    ("Funtoo", "Gentoo"),
    ("GCEL", "Debian"),
    ("GoOSe", "RedHat"),
    ("IDMS", "Debian"),
    ("KDE neon", "Debian"),
    ("Kali", "Debian"),
    ("Korora", "RedHat"),
    ("Linaro", "Debian"),
    ("Mandrake", "Mandriva"),
    ("Manjaro", "Arch"),
    ("Manjaro ARM", "Arch"),
    ("Mendel", "Debian"),
    ("Mint", "Debian"),
    ("NILinuxRT", "NILinuxRT"),
    ("OEL", "RedHat"),
    ("OSMC", "Debian"),
    ("OVS", "RedHat"),
    ("Parrot OS", "Debian"),
    ("Pop", "Debian"),
    ("RED OS", "RedHat"),
    ("RES", "RedHat"),
    ("Raspbian", "Debian"),
    ("Rocky", "RedHat"),
    ("SLED", "Suse"),
    ("SLES", "Suse"),
    ("SLES_SAP", "Suse"),
    ("SUSE", "Suse"),
    ("SUSE  Enterprise Server", "Suse"),
    ("SUSE Enterprise Server", "Suse"),
    ("Sangoma", "RedHat"),
    ("Scientific", "RedHat"),
    ("ScientificLinux", "RedHat"),
    ("Slamd64", "Slackware"),
    ("Trisquel", "Debian"),
    ("TurnKey", "Debian"),
    ("Ubuntu", "Debian"),
    ("Univention", "Debian"),
    ("VMware Photon OS", "RedHat"),
    ("VMwareESX", "VMware"),
    ("Virtuozzo", "RedHat"),
    ("Void", "Void"),
    ("XCP", "RedHat"),
    ("XCP-ng", "RedHat"),
    ("XenServer", "RedHat"),
    ("alfaLinux", "Suse"),
    ("alfaLinux Rise", "Suse"),
    ("antiX", "Debian"),
    ("elementary", "Debian"),
    ("elementary OS", "Debian"),
    ("neon", "Debian"),
    ("openEuler", "RedHat"),
    ("openSUSE", "Suse"),
    ("openSUSE Leap", "Suse"),
    ("openSUSE Tumbleweed", "Suse"),
];

/// Returns the second element of the pair that begins with the key.
pub fn look_up(table: &[(&'static str, &'static str)], key: &str) -> Option<&'static str> {
    // The tables are sorted; a test checks it.
    table.binary_search_by(|(name, _)| (*name).cmp(key)).ok().map(|place| table[place].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted() {
        assert!(NAMES.is_sorted());
        assert!(FAMILIES.is_sorted());
    }
}

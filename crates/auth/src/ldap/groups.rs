//! Which groups a user is in, as the entries say that a server has sent.

use ldap3::SearchEntry;

/// The most groups of a user.
const MOST: usize = 4096;

/// Returns the values of an attribute. Its name may be written in any case.
fn values<'a>(entry: &'a SearchEntry, attribute: &str) -> &'a [String] {
    let found = entry.attrs.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
    found.map_or(&[], |(_, values)| values)
}

/// Returns the value of the first part of a distinguished name: `admins` of `cn=admins,ou=Groups`. As in Salt, what follows the
/// last `=` counts, and escapes stay.
fn first_value(name: &str) -> &str {
    let first = name.split(',').next().unwrap_or_default();
    first.rsplit('=').next().unwrap_or_default()
}

fn common_name(entry: &SearchEntry) -> Option<String> {
    values(entry, "cn").first().cloned()
}

/// Returns the groups of a user whose name stands in them, and those that the user's own entry lists.
pub fn of_members(entries: &[SearchEntry], username: &str, account: &str, group: &str) -> Vec<String> {
    let lists_user = |entry: &&SearchEntry| values(entry, account).iter().any(|member| member == username);
    let is_user = |entry: &&SearchEntry| first_value(&entry.dn) == username;
    let listing = entries.iter().filter(lists_user).filter_map(common_name);
    let own = entries.iter().filter(is_user).flat_map(|entry| values(entry, group));
    bounded(listing.chain(own.map(|name| first_value(name).to_owned())))
}

/// Returns the groups of a search for those that have a member.
pub fn of_search(entries: &[SearchEntry]) -> Vec<String> {
    bounded(entries.iter().filter_map(common_name))
}

/// Returns the groups that have a user as a member, by name or by distinguished name.
pub fn of_free_ipa(entries: &[SearchEntry], username: &str, attributes: &[String; 2]) -> Vec<String> {
    let has_user = |entry: &&SearchEntry| {
        let mut members = attributes.iter().flat_map(|attribute| values(entry, attribute));
        members.any(|member| first_value(member) == username)
    };
    bounded(entries.iter().filter(has_user).map(|entry| first_value(&entry.dn).to_owned()))
}

/// Returns the ids of the minions on computers: their names in lower case, without the first suffix that fits.
pub fn computers(entries: &[SearchEntry], suffixes: &[String]) -> Vec<String> {
    let id = |name: String| {
        let name = name.to_lowercase();
        let short = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix.as_str()));
        short.map(str::to_owned).unwrap_or(name)
    };
    entries.iter().filter_map(common_name).map(id).filter(|id| !id.is_empty()).collect()
}

/// Returns each group once, in order.
fn bounded(groups: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for group in groups.filter(|group| !group.is_empty()).take(MOST) {
        if !all.contains(&group) {
            all.push(group);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(dn: &str, attrs: &[(&str, &[&str])]) -> SearchEntry {
        let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        SearchEntry {
            dn: dn.to_owned(),
            attrs: attrs.iter().map(|(name, values)| ((*name).to_owned(), texts(values))).collect(),
            bin_attrs: Default::default(),
        }
    }

    #[test]
    fn groups_list_members_or_members_list_groups() {
        let entries = [
            entry("cn=admins,ou=Groups", &[("cn", &["admins"]), ("memberUid", &["ann", "fred"])]),
            // The server ignores case, and Salt does not.
            entry("cn=others,ou=Groups", &[("cn", &["others"]), ("memberUid", &["Fred"])]),
            entry("uid=fred,ou=People", &[("cn", &["Fred"]), ("memberOf", &["cn=dba,ou=Groups", "cn=admins,ou=x"])]),
            entry("uid=ann,ou=People", &[("memberOf", &["cn=root,ou=Groups"])]),
        ];
        assert_eq!(of_members(&entries, "fred", "memberuid", "memberOf"), ["admins", "dba"]);
        assert_eq!(of_search(&entries[..2]), ["admins", "others"]);
    }

    #[test]
    fn groups_of_free_ipa_have_either_kind_of_member() {
        let attributes = ["memberUid".to_owned(), "member".to_owned()];
        let entries = [
            entry("cn=admins,cn=groups", &[("member", &["uid=fred,cn=users"])]),
            entry("cn=dba,cn=groups", &[("memberUid", &["fred"])]),
            entry("cn=others,cn=groups", &[("member", &["uid=ann,cn=users", "uid=x,ou=fred"])]),
        ];
        assert_eq!(of_free_ipa(&entries, "fred", &attributes), ["admins", "dba"]);
    }

    #[test]
    fn computers_are_minions() {
        let entries = [
            entry("cn=WEB1", &[("cn", &["WEB1.Example.com"])]),
            entry("cn=x", &[]),
            entry("cn=DB", &[("cn", &["DB"])]),
        ];
        assert_eq!(computers(&entries, &[".org".to_owned(), ".example.com".to_owned()]), ["web1", "db"]);
    }
}

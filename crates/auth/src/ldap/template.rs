//! Texts with places for the name of a user.

/// A text with places for a name, written as `{{ username }}`. It is the only template that configurations of Salt have here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// What stands before, between and after the places.
    pieces: Vec<String>,
}

impl Template {
    /// Reads a template. `None` if it is another one of Jinja.
    pub fn parse(text: &str) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (inside, behind) = after.split_once("}}")?;
            if inside.trim() != "username" {
                return None;
            }
            pieces.push(before.to_owned());
            rest = behind;
        }
        pieces.push(rest.to_owned());
        let is_plain = pieces.iter().all(|piece| !piece.contains("{%") && !piece.contains("{#"));
        is_plain.then_some(Template { pieces })
    }

    /// Returns whether the text depends on the user.
    pub fn has_name(&self) -> bool {
        self.pieces.len() > 1
    }

    /// Returns the text for a name, which must have been escaped.
    pub fn fill(&self, name: &str) -> String {
        self.pieces.join(name)
    }

    /// Returns the text for a name that a user binds with: a distinguished name, or a name of Active Directory such as
    /// `fred@example.com`.
    pub fn bind_name(&self, name: &str) -> String {
        match self.pieces.iter().any(|piece| piece.contains('=')) {
            true => self.fill(&ldap3::dn_escape(name)),
            false => self.fill(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_filled_in() {
        let template = Template::parse("uid={{ username }},ou={{username}},dc=x").unwrap();
        assert!(template.has_name());
        assert_eq!(template.fill("fred"), "uid=fred,ou=fred,dc=x");
        assert_eq!(template.bind_name("fred,ou=Admins"), "uid=fred\\2cou\\3dAdmins,ou=fred\\2cou\\3dAdmins,dc=x");
        assert_eq!(Template::parse("{{ username }}@example.com").unwrap().bind_name("a, b"), "a, b@example.com");
        assert!(!Template::parse("cn=salt,dc=x").unwrap().has_name());
    }

    #[test]
    fn other_templates_are_refused() {
        for other in ["{{ user }}", "{{ username", "{% if username %}x{% endif %}", "{# x #}", "{{ username | lower }}"]
        {
            assert_eq!(Template::parse(other), None, "{other}");
        }
    }
}

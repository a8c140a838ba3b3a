//! Values of options that are allowed and probably a mistake: each closes something without an error.

use std::net::IpAddr;

use crate::addresses::block;
use crate::low::{BUILT, SALTS};
use crate::options::{Options, hint};
use crate::origin::Cors;

/// Returns what is probably a mistake.
pub fn warnings(options: &Options) -> Vec<String> {
    let mut warnings: Vec<String> = options.clients.iter().filter_map(|name| client(name)).collect();
    let addresses = options.addresses.iter().flatten();
    warnings.extend(addresses.filter_map(|text| address("authorized_ips", text)));
    if let Some(users) = &options.users_at {
        if users.is_empty() {
            warnings.push("rest_cherrypy: 'api_acl' has no 'users': nobody may log in".to_owned());
        }
        let mut lists: Vec<_> = users.iter().collect();
        lists.sort();
        for (user, addresses) in lists {
            let option = format!("api_acl of {user}");
            let texts = addresses.iter().filter(|text| *text != "*");
            warnings.extend(texts.filter_map(|text| address(&option, text)));
        }
    }
    if let Cors::Origins(origins) = &options.cors {
        warnings.extend(origins.iter().filter_map(|text| origin(text)));
    }
    warnings
}

fn client(name: &str) -> Option<String> {
    if BUILT.contains(&name) {
        return None;
    }
    Some(match SALTS.contains(&name) {
        true => format!("netapi_enable_clients: the client '{name}' is not supported"),
        false => format!("netapi_enable_clients: the client '{name}' is not known{}", hint(name, &BUILT)),
    })
}

/// Addresses are compared as texts, as in Salt.
fn address(option: &str, text: &str) -> Option<String> {
    if block(text).is_some() {
        return None;
    }
    let warning = match text.parse::<IpAddr>().map(|address| address.to_canonical().to_string()) {
        Ok(address) if address == text => return None,
        Ok(address) => format!("the address must be written as '{address}'"),
        Err(_) => "only addresses and blocks such as 10.0.0.0/8 match".to_owned(),
    };
    Some(format!("rest_cherrypy: '{text}' in {option} matches no client: {warning}"))
}

fn origin(text: &str) -> Option<String> {
    let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
        !scheme.is_empty() && !host.is_empty() && !host.contains('/') && !text.contains(char::is_uppercase)
    });
    (!is_origin).then(|| {
        format!(
            "rest_cherrypy: '{text}' in cors_origin matches no page: browsers send origins such as https://gui.example"
        )
    })
}

#[cfg(test)]
mod tests {
    use value::{Map, list, map};

    use super::*;

    fn warnings_of(more: Map, clients: value::Value) -> Vec<String> {
        let mut section = map! { "port" => 8000, "disable_ssl" => true };
        section.update(more);
        let options = map! { "rest_cherrypy" => section, "netapi_enable_clients" => clients };
        let (options, mut all) = Options::read(&options).unwrap();
        all.extend(warnings(&options));
        all
    }

    #[test]
    fn clients_that_do_not_exist_are_named() {
        assert_eq!(
            warnings_of(Map::new(), list!["local", "lokal", "ssh", "magic_carpet"]),
            [
                "netapi_enable_clients: the client 'lokal' is not known. Did you mean 'local'?",
                "netapi_enable_clients: the client 'ssh' is not supported",
                "netapi_enable_clients: the client 'magic_carpet' is not known",
            ]
        );
    }

    #[test]
    fn addresses_that_match_nobody_are_named() {
        let users = map! { "fred" => list!["10.0.0.1", "10.0.0.0/8", "10.0.0.0/33", "*"], "ann" => "*" };
        let section =
            map! { "authorized_ips" => list!["::1", "10.0.0.*", "0:0::1"], "api_acl" => map! { "users" => users } };
        assert_eq!(
            warnings_of(section, list![]),
            [
                "rest_cherrypy: '10.0.0.*' in authorized_ips matches no client: only addresses and blocks such as 10.0.0.0/8 match",
                "rest_cherrypy: '0:0::1' in authorized_ips matches no client: the address must be written as '::1'",
                "rest_cherrypy: '10.0.0.0/33' in api_acl of fred matches no client: only addresses and blocks such as 10.0.0.0/8 match",
            ]
        );
        let nobody = warnings_of(map! { "api_acl" => map! { "user" => map! {} } }, list![]);
        assert_eq!(nobody, ["rest_cherrypy: 'api_acl' has no 'users': nobody may log in"]);
    }

    #[test]
    fn origins_that_no_browser_sends_are_named() {
        let origins = list!["https://gui.example", "http://[::1]:8080", "gui.example", "https://gui.example/", "*"];
        let warned = warnings_of(map! { "cors_origin" => origins }, list![]);
        assert_eq!(warned.len(), 3, "{warned:?}");
        assert!(warned[0].starts_with("rest_cherrypy: 'gui.example' in cors_origin matches no page"), "{warned:?}");
    }

    #[test]
    fn options_that_are_not_known_are_named() {
        let warned = warnings_of(map! { "athorized_ips" => list![] }, list![]);
        assert_eq!(warned, ["rest_cherrypy: the option 'athorized_ips' is not known. Did you mean 'authorized_ips'?"]);
    }
}

//! The names that give a template its place.

use std::path::Path;

/// Returns `tplpath`, `tplfile`, `tpldir`, `tpldot`, `slspath`, `slsdotpath`, `slscolonpath` and `sls_path`, as far as they
/// follow from the path of the file and the name of the SLS.
pub fn of(path: Option<&Path>, sls: &str) -> Vec<(&'static str, String)> {
    // The steps and the order are those of Salt's generate_sls_context(), oddities included: a name is compared with
    // the end of the path only.
    let mut slspath = sls.replace('.', "/").trim_end_matches('/').to_owned();
    let mut names = Vec::new();
    if let Some(path) = path {
        let path = path.to_string_lossy().into_owned();
        let normal = normalized(&path);
        let tail = |ending: String| normal.ends_with(&ending).then(|| normal[normal.len() - ending.len()..].to_owned());
        let file = match sls.is_empty() {
            true => normal.rsplit('/').next().map(str::to_owned),
            false => tail(format!("{slspath}.sls")).or_else(|| tail(format!("{slspath}/init.sls"))),
        };
        let Some(file) = file else {
            // The text is not that of an SLS file: its name is a path.
            let parent = match normalized(sls).rsplit_once('/') {
                Some(("", _)) => "/".to_owned(),
                Some((parent, _)) => parent.to_owned(),
                None => ".".to_owned(),
            };
            return vec![("tplpath", path), ("tplfile", sls.to_owned()), ("tpldir", parent)];
        };
        slspath = file.rsplit_once('/').map(|(directory, _)| directory.to_owned()).unwrap_or_default();
        names.push(("tplpath", path));
        names.push(("tplfile", file));
        names.push(("tpldir", if slspath.is_empty() { ".".to_owned() } else { slspath.clone() }));
        names.push(("tpldot", slspath.replace('/', ".")));
    }
    names.push(("slspath", slspath.clone()));
    names.push(("slsdotpath", slspath.replace('/', ".")));
    names.push(("slscolonpath", slspath.replace('/', ":")));
    names.push(("sls_path", slspath.replace('/', "_")));
    names
}

/// As `pathlib` writes a path: no empty parts, no single dots.
fn normalized(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let root = if path.starts_with('/') { "/" } else { "" };
    let joined = format!("{root}{}", parts.join("/"));
    if joined.is_empty() { ".".to_owned() } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(path: &str, sls: &str) -> String {
        let path = Some(path).filter(|path| !path.is_empty()).map(Path::new);
        of(path, sls).iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_follow_from_path_and_sls() {
        for (path, sls, expected) in [
            (
                "/srv/salt/a/b.sls",
                "a.b",
                "tplpath=/srv/salt/a/b.sls tplfile=a/b.sls tpldir=a tpldot=a slspath=a slsdotpath=a slscolonpath=a sls_path=a",
            ),
            (
                "/srv/salt/a/b/init.sls",
                "a.b",
                "tplpath=/srv/salt/a/b/init.sls tplfile=a/b/init.sls tpldir=a/b tpldot=a.b slspath=a/b slsdotpath=a.b \
                 slscolonpath=a:b sls_path=a_b",
            ),
            (
                "/srv/salt/top.sls",
                "top",
                "tplpath=/srv/salt/top.sls tplfile=top.sls tpldir=. tpldot= slspath= slsdotpath= slscolonpath= sls_path=",
            ),
            (
                "/srv/salt/x.sls",
                "",
                "tplpath=/srv/salt/x.sls tplfile=x.sls tpldir=. tpldot= slspath= slsdotpath= slscolonpath= sls_path=",
            ),
            ("/cache/a/f.jinja", "a/f.jinja", "tplpath=/cache/a/f.jinja tplfile=a/f.jinja tpldir=a"),
            ("", "a.b", "slspath=a/b slsdotpath=a.b slscolonpath=a:b sls_path=a_b"),
        ] {
            assert_eq!(listed(path, sls), expected, "{path} {sls}");
        }
    }
}

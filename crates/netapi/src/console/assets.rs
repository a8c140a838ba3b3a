//! The console's style sheet and script. Their names contain a hash of their content, so browsers may keep them for ever.

use std::sync::LazyLock;

use crate::pack;

/// A file that is part of the program.
pub struct Asset {
    /// The name in its address.
    pub name: String,
    /// The media type.
    pub kind: &'static str,
    /// The content.
    pub text: &'static [u8],
    /// The content, packed with gzip.
    pub packed: Option<Vec<u8>>,
}

/// The style sheet.
pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| asset("console", "css", "text/css;charset=utf-8", include_bytes!("../../assets/console.css")));

/// The script.
pub static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    asset("console", "js", "text/javascript;charset=utf-8", include_bytes!("../../assets/console.js"))
});

/// The icon.
pub static ICON: LazyLock<Asset> =
    LazyLock::new(|| asset("icon", "svg", "image/svg+xml", include_bytes!("../../assets/icon.svg")));

fn asset(stem: &str, extension: &str, kind: &'static str, text: &'static [u8]) -> Asset {
    let hash = hex::encode(&openssl::sha::sha256(text)[..6]);
    let packed = std::str::from_utf8(text).ok().and_then(pack::gzip);
    Asset { name: format!("{stem}-{hash}.{extension}"), kind, text, packed }
}

/// Finds a file by the name in its address.
pub fn find(name: &str) -> Option<&'static Asset> {
    [&STYLE, &SCRIPT, &ICON].into_iter().map(|asset| &**asset).find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_full_name_and_small() {
        assert!(STYLE.name.starts_with("console-") && STYLE.name.ends_with(".css"));
        assert!(find(&STYLE.name).is_some() && find(&ICON.name).is_some() && find("console.css").is_none());
        let sent = |asset: &Asset| asset.packed.as_ref().map_or(asset.text.len(), Vec::len);
        assert!(sent(&STYLE) + sent(&SCRIPT) < 16_000, "{} {}", sent(&STYLE), sent(&SCRIPT));
        assert!(SCRIPT.text.len() < 25_000);
    }
}

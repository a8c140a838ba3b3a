//! Small requests about the master's options, keys and tokens.

use value::{Map, Value};

use super::field::{Lenient, Text, load};

load! {
    /// Asks for the master's options for states.
    pub struct MasterOpts {
        cmd "_master_opts";
        /// Only the options about environments.
        pub env_only: Option<bool>,
    }
}

load! {
    /// Deletes the minion's own key.
    pub struct RevokeAuth {
        cmd "revoke_auth";
        /// Keeps the minion's cached data.
        pub preserve_minion_cache: Option<bool>,
    }
}

load! {
    /// Names the resources that the minion manages (3008).
    pub struct RegisterResources {
        cmd "_register_resources";
        /// The resources by kind.
        pub resources: Lenient<Map>,
    }
}

load! {
    /// Asks what a token stands for.
    pub struct GetToken {
        cmd "get_token";
        /// The token.
        pub token: Value,
    }
}

load! {
    /// Asks for a token. The credentials are in `extra`.
    pub struct MakeToken {
        cmd "mk_token";
        /// The kind of external authentication.
        pub eauth: Option<Text>,
    }
}

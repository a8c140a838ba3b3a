//! Encrypted requests of minions.

use super::{Handler, event, file, mine, missed, opts, peer, peer_return, pillar, resources, return_, revoke, syndic};

/// The handlers by command.
pub const TABLE: &[(&str, Handler)] = &[
    ("_return", return_::handle),
    ("_minion_event", event::handle),
    ("_serve_file", file::serve),
    ("_file_hash", file::handle),
    ("_file_hash_and_stat", file::handle),
    ("_file_find", file::handle),
    ("_file_list", file::handle),
    ("_file_list_emptydirs", file::handle),
    ("_dir_list", file::handle),
    ("_symlink_list", file::handle),
    ("_file_envs", file::handle),
    ("_file_recv", file::receive),
    ("_pillar", pillar::handle),
    ("_master_opts", opts::options),
    ("_master_tops", opts::tops),
    ("_mine", mine::store),
    ("_mine_get", mine::get),
    ("_mine_delete", mine::delete),
    ("_mine_flush", mine::flush),
    ("_syndic_return", syndic::handle),
    ("_register_resources", resources::handle),
    ("minion_pub", peer::publish),
    ("minion_publish", peer::publish_and_wait),
    ("minion_runner", peer::runner),
    ("pub_ret", peer::returns),
    ("saltern_return", peer_return::handle),
    ("revoke_auth", revoke::handle),
    ("saltern_missed", missed::missed),
    ("saltern_received", missed::received),
];

//! What several tests of leases need.

use crate::member::{Member, Rights, Role};

/// Returns a member that may do everything.
pub fn member(name: String, role: Role) -> Member {
    Member { name, key: [0; 32], addresses: Vec::new(), role, may: Rights::ALL, slot: 0 }
}

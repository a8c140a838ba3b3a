//! The event bus: tags, subscriptions, the sockets local programs use.

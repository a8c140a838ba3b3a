//! The drivers against servers that each test starts. Where a program is not installed, its tests are skipped and say so.
//! Consul is a stand-in that keeps to the documentation of its HTTP API.

mod conformity;
mod consul;
mod etcd;
mod etcd3;
mod faults;
mod mysql;
mod real_salt;
mod redis;
mod servers;
mod tls;

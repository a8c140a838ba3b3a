//! The server: requests, jobs, runners, wheel.

//! Sockets that speak Salt's transports: zeromq and tcp, request and publish, both sides.

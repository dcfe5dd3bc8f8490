//! The scoreboard: what every child and every worker is doing, in memory shared by all processes of the server.

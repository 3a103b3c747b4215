//! Commands: how they are started, what confines them, what they changed, and which hosts they reach.

#![warn(unreachable_pub)]

pub mod changes;
pub mod egress;
pub mod exec;

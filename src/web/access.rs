//! Secrets by which a page is let in: the token of a server, and tickets, each of which is good once.
//!
//! A program that opens a browser has the address as an argument, which other users of the machine can read. So such an address has
//! a ticket, and the page is told the token over its connection. A ticket that somebody else has used first is void, and
//! the page says that it wasn't let in.

use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use roo_protocol::ids::Digest;

/// The most tickets that wait for their page; the oldest one becomes void.
const TICKETS: usize = 16;

/// What the pages of one server have to know.
pub(super) struct Access {
    token: String,
    /// Secrets are compared by their digests, which takes the same time for every wrong one.
    digest: Digest,
    tickets: Mutex<Vec<Digest>>,
}

impl Access {
    /// With a new token.
    pub(super) fn new() -> Self {
        let token = secret();
        Self { digest: Digest::of(&token), token, tickets: Mutex::default() }
    }

    /// The token, which is good for as long as the server runs.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Returns a new ticket.
    pub(super) fn ticket(&self) -> String {
        let ticket = secret();
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        if tickets.len() == TICKETS {
            tickets.remove(0);
        }
        tickets.push(Digest::of(&ticket));
        ticket
    }

    /// Returns whether a page with this secret is let in. A ticket is used up by it.
    pub(super) fn admits(&self, secret: &str) -> bool {
        let digest = Digest::of(secret);
        if digest == self.digest {
            return true;
        }
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let found = tickets.iter().position(|ticket| *ticket == digest);
        found.is_some_and(|place| {
            tickets.remove(place);
            true
        })
    }
}

/// 244 random bits, in characters that a URL and a header take as they are.
fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_again_and_again_and_a_ticket_once() {
        let access = Access::new();
        let ticket = access.ticket();
        assert!(access.admits(access.token()) && access.admits(access.token()));
        assert!(access.admits(&ticket));
        assert!(!access.admits(&ticket));
        for wrong in ["", "x", &access.token()[1..], &Access::new().token] {
            assert!(!access.admits(wrong), "{wrong}");
        }
    }

    #[test]
    fn tickets_that_nobody_uses_do_not_pile_up() {
        let access = Access::new();
        let first = access.ticket();
        let others: Vec<String> = (0..TICKETS).map(|_| access.ticket()).collect();
        assert!(!access.admits(&first));
        assert!(others.iter().all(|ticket| access.admits(ticket)));
    }
}

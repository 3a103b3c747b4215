//! Calls that name a socket. Which sockets may be named is in [`super::super::connections`].

use rustix::io::Errno;

use super::Supervisor;
use super::supervised_call::SupervisedCall;
use crate::exec::sandbox::caller::Unresolved;
use crate::exec::sandbox::connections::{Connection, read_address};
use crate::exec::sandbox::notifications::CallAnswer;

impl Supervisor {
    /// Gives a socket its name.
    pub(super) fn bind(&mut self, call: &SupervisedCall<'_>) -> Result<CallAnswer, Unresolved> {
        let address = read_address(call.caller, call.argument(1), call.argument(2))?;
        let binding = self.sockets.binding(call.caller, call.integer(0), address)?;
        call.check()?;
        if let Some((entry, _)) = &binding.entry {
            self.check_held(&entry.path, &entry.directory)?;
            self.check_writer(call.caller, &entry.path)?;
            if !self.is_refused(&entry.path, &entry.directory) {
                self.touch(&entry.path, false)?;
            }
        }
        if !self.carries_out {
            return Ok(CallAnswer::Continue);
        }
        self.sockets.bind(call.caller, &binding)?;
        Ok(CallAnswer::Done(0))
    }

    /// Makes a connection, or says why not. Whoever waits for one is answered later.
    pub(super) fn connect(&mut self, call: &SupervisedCall<'_>) -> CallAnswer {
        if !self.carries_out {
            return CallAnswer::Continue;
        }
        let connection = read_address(call.caller, call.argument(1), call.argument(2)).and_then(|address| {
            let connection = self.sockets.connection(call.caller, call.integer(0), &address);
            call.check()?;
            if connection.is_err() {
                self.record_refused_socket(&address);
            }
            connection
        });
        match connection {
            Ok(connection) if connection.may_block() => {
                self.answer_later(call, move || connected(&connection))
            }
            Ok(connection) => connected(&connection),
            Err(Unresolved::Fails(error) | Unresolved::Refused(error)) => CallAnswer::Fail(error),
            // What can't be looked at may lead anywhere.
            Err(Unresolved::CallersOwn | Unresolved::ReadOnlyProc | Unresolved::Exposed) => {
                CallAnswer::Fail(Errno::ACCESS)
            }
        }
    }
}

fn connected(connection: &Connection) -> CallAnswer {
    match connection.make() {
        Ok(()) => CallAnswer::Done(0),
        Err(error) => CallAnswer::Fail(error),
    }
}

//! What was asked for, so that the same asked again is known as the same. Runs in the daemon, as root, on requests that hold a
//! tool's words.

use std::fmt::Write as _;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use crate::common::access::Access;
use crate::common::exec::Execution;
use crate::common::request::Request;
use crate::common::text::{self, Untrusted};

/// Columns of a thing that are kept.
pub(super) const COLUMNS: usize = 4096;
/// Bytes of a mark.
const MARK: usize = 16;

/// What is shown of a request, and what tells it from others that look alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thing {
    pub access: Access,
    /// The object, or a command line and the directory it is for; escaped, with secrets masked.
    pub what: String,
    /// Of all that a person was asked about: argv\[0\] is the tool's own word, and so is what is masked. Hexadecimal.
    pub mark: String,
}

impl Thing {
    /// `None`: not all of it is known, so nothing is the same.
    pub fn of(request: &Request) -> Option<Thing> {
        let mut marker = Marker(Sha256::new());
        marker.field(request.object.as_bytes());
        marker.field(request.operation.as_str().as_bytes());
        marker.field(request.other.as_ref().map_or(b"".as_slice(), |other| other.as_bytes()));
        if let Some(destination) = &request.destination {
            // An answer may be for the program that was shown.
            marker.field(request.who.program.as_bytes());
            marker.field(destination.transport.as_str().as_bytes());
        }
        let what = match request.execution.as_deref() {
            Some(execution) => line(request, execution, &mut marker)?,
            None => text::escaped_within(request.object.as_bytes(), COLUMNS),
        };
        Some(Thing { access: request.access, what, mark: marker.finish() })
    }
}

/// A command in words, all of which goes into the mark.
fn line(request: &Request, execution: &Execution, marker: &mut Marker) -> Option<String> {
    if execution.words_left_out > 0 {
        return None;
    }
    let masked = crate::common::mask::argv(&execution.argv);
    if masked != execution.argv {
        // Secrets are guessed from what is on the disk if it says when the guess is right.
        marker.field(of_this_run()?);
    }
    let cwd = request.who.cwd.as_bytes();
    marker.fields(execution.argv.iter().map(Untrusted::as_bytes));
    marker.fields(execution.interpreters.iter().map(|path| path.as_bytes()));
    marker.fields(execution.variables.iter().map(Untrusted::as_bytes));
    marker.field(cwd);
    let line = text::quoted_argv_within(masked.iter().map(Untrusted::as_bytes), COLUMNS);
    Some(format!("{line} (in {})", text::escaped_within(cwd, COLUMNS)))
}

/// Bytes that are gone with the daemon.
fn of_this_run() -> Option<&'static [u8]> {
    static SALT: OnceLock<Option<[u8; 32]>> = OnceLock::new();
    let salt = SALT.get_or_init(|| {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).is_ok().then_some(bytes)
    });
    salt.as_ref().map(|bytes| bytes.as_slice())
}

/// A hash of fields, each with its length, and of lists of them.
struct Marker(Sha256);

impl Marker {
    fn field(&mut self, bytes: &[u8]) {
        self.0.update(bytes.len().to_le_bytes());
        self.0.update(bytes);
    }

    fn fields<'a>(&mut self, all: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.0.update(all.len().to_le_bytes());
        all.for_each(|bytes| self.field(bytes));
    }

    fn finish(self) -> String {
        self.0.finalize().iter().take(MARK).fold(String::new(), |mut hex, byte| {
            // To write to a string does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

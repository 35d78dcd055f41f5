//! What the daemon says to an admin, by number: the `MESSAGE_ID=` of its log and records, journald's catalog entry for each is
//! in `systemd/gated.catalog`. A number never changes and is never used for something else.
//!
//! An entry names fields of its message as `@FIELD@`; who logs with one of these sets them:
//!
//! | message | fields besides `MESSAGE=` |
//! |---|---|
//! | daemon started, reloaded | none |
//! | reload failed | `GATED_ERROR` |
//! | policy installed | `GATED_UID`, `GATED_FILE` |
//! | session started | `GATED_SESSION`, `GATED_USER`, `GATED_PROFILE`, `GATED_PUBLISHED` (perhaps empty) |
//! | session ended, supervisor lost | `GATED_SESSION` |
//! | requests | `GATED_SESSION`, `GATED_REQUEST`, `GATED_USER`, `GATED_PROGRAM`, `GATED_OPERATION`, `GATED_OBJECT`; once decided `GATED_ANSWERED_BY` |
//! | agent registered, gone | `GATED_AGENT`, `GATED_USER` |
//! | authorization refused | `GATED_UID`, `GATED_PID`, `GATED_ACTION` |
//! | audit failed | `GATED_ERROR` |
//! | store set aside | `GATED_FILE`, `GATED_ERROR` |
//! | grant stored | `GATED_GRANT`, `GATED_USER`, `GATED_PROFILE`, `GATED_EFFECT`, `GATED_ACCESS`, `GATED_OBJECT`, `GATED_ANSWERED_BY` |
//! | request muted | `GATED_SESSION`, `GATED_REQUEST`, `GATED_USER`, `GATED_PROGRAM`, `GATED_OPERATION`, `GATED_OBJECT` |

/// The policy is loaded, the name owned, and sessions of before are known.
pub const DAEMON_STARTED: &str = "27bd06d7e30f4a75b59d82395834fdd7";
pub const RELOADED: &str = "e9e8031c1ee64147b7fcf07c49d5dd94";
/// The last good policy stays in force.
pub const RELOAD_FAILED: &str = "6d46cb2fcd29443eb239593e540f5e9f";
/// Somebody replaced a file of the machine's policy through the daemon.
pub const POLICY_INSTALLED: &str = "57dd1843106444d2a8359c184c89c546";
pub const SESSION_STARTED: &str = "16e3230bbd35461e99e5f043bbc694e8";
pub const SESSION_ENDED: &str = "30175ee045114a94a1686566601ab7fd";
/// A supervisor ended before its session, or did not come back.
pub const SUPERVISOR_LOST: &str = "6ec520cfe73743418c927464a4146fb9";
pub const REQUEST_ASKED: &str = "e73a0bbb829e4dce93d9a1879e988c9b";
pub const REQUEST_APPROVED: &str = "2ccd77754e8c44f6bd06b0ce7bd98fb2";
pub const REQUEST_DENIED: &str = "84a717e18c6949beaf24372b4ba68db5";
pub const REQUEST_TIMED_OUT: &str = "621a5a0e2c1d4f0181f869686ea3de0f";
pub const AGENT_REGISTERED: &str = "6eef5b8f72ab4d40935de77da349141e";
pub const AGENT_GONE: &str = "82d576713c74490dbe1bb09d8d351ab6";
pub const AUTHORIZATION_REFUSED: &str = "7c9c9e92afe0476d84d5c17571fd0ccb";
/// A decision is not recorded, and so nothing was permitted.
pub const AUDIT_FAILED: &str = "28169688ccb649cfa6c1a6e49cc534a6";

/// Lasting answers cannot be trusted and do not hold.
pub const STORE_SET_ASIDE: &str = "159f6baddf064944936dadfef4d6c68f";
/// An answer outlives its session from now on.
pub const GRANT_STORED: &str = "2611fdd05ca84b3f845bb3be886eaaea";
/// What was turned down again and again is denied for a while without a question.
pub const REQUEST_MUTED: &str = "c339b0b5531b4542878ee6ee0b4e38df";

/// All of them, by name.
pub const ALL: [(&str, &str); 18] = [
    ("daemon started", DAEMON_STARTED),
    ("reloaded", RELOADED),
    ("reload failed", RELOAD_FAILED),
    ("policy installed", POLICY_INSTALLED),
    ("session started", SESSION_STARTED),
    ("session ended", SESSION_ENDED),
    ("supervisor lost", SUPERVISOR_LOST),
    ("request asked", REQUEST_ASKED),
    ("request approved", REQUEST_APPROVED),
    ("request denied", REQUEST_DENIED),
    ("request timed out", REQUEST_TIMED_OUT),
    ("agent registered", AGENT_REGISTERED),
    ("agent gone", AGENT_GONE),
    ("authorization refused", AUTHORIZATION_REFUSED),
    ("audit failed", AUDIT_FAILED),
    ("store set aside", STORE_SET_ASIDE),
    ("grant stored", GRANT_STORED),
    ("request muted", REQUEST_MUTED),
];

//! `status`, `sessions`, `session show`, `session stop`. Runs as the caller, who sees their own sessions, or all as root or
//! with polkit's leave.

use serde::Serialize;

use super::daemon::{Call, Daemon, Grant, Pending, Session};
use super::failure::Failure;
use super::grants::ShownGrant;
use super::ids::{Kind, Prefix};
use super::output::{Output, moment, user_name};
use super::requests::left;
use super::table::{Cell, Column, Table};
use crate::common::text;

#[derive(Serialize)]
struct Status<'a> {
    version: &'a str,
    features: &'a [String],
    sessions: usize,
    pending: usize,
}

pub async fn status(output: &Output) -> Result<(), Failure> {
    let daemon = Daemon::connect().await?;
    let (version, features) = (daemon.manager.version().await?, daemon.manager.features().await?);
    let sessions = daemon.manager.sessions().await?.len();
    let pending = daemon.manager.pending_requests().await?.len();
    if output.json {
        return output.json(&Status { version: &version, features: &features, sessions, pending });
    }
    output.fields(&[
        ("gatedd", Cell::Own(version)),
        ("features", Cell::Own(features.join(" "))),
        ("sessions", Cell::Own(sessions.to_string())),
        ("waiting for an answer", Cell::Own(pending.to_string())),
    ])
}

/// A session in JSON. Paths and words of a tool are in the notation of the audit log.
#[derive(Serialize)]
struct ShownSession<'a> {
    id: &'a str,
    user: u32,
    user_name: String,
    profile: &'a str,
    directory: String,
    state: &'a str,
    started: String,
    unit: &'a str,
    calls: Vec<ShownCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grants: Option<Vec<ShownGrant<'a>>>,
}

#[derive(Serialize)]
struct ShownCall {
    call: u32,
    pid: u32,
    argv: Vec<String>,
}

impl Session {
    fn shown(&self) -> ShownSession<'_> {
        let call = |call: &Call| ShownCall {
            call: call.number,
            pid: call.pid,
            argv: call.argv.iter().map(|word| text::escaped(word.as_bytes())).collect(),
        };
        ShownSession {
            id: &self.id,
            user: self.user,
            user_name: user_name(self.user),
            profile: &self.profile,
            directory: text::escaped(&self.directory),
            state: &self.state,
            started: format!("{:.6}", moment(self.started)),
            unit: &self.unit,
            calls: self.calls.iter().map(call).collect(),
            pending: None,
            grants: None,
        }
    }

    /// The first of its calls.
    fn running(&self) -> Cell {
        Cell::Command(self.calls.first().map(|call| call.argv.clone()).unwrap_or_default())
    }
}

pub async fn sessions(output: &Output) -> Result<(), Failure> {
    let sessions = Daemon::connect().await?.objects().await?.sessions;
    if output.json {
        return output.json(&sessions.iter().map(Session::shown).collect::<Vec<_>>());
    }
    let mut table = Table::new(
        output.width,
        &[
            Column::whole("SESSION"),
            Column::whole("USER"),
            Column::cut("PROFILE"),
            Column::whole("STATE"),
            Column::whole("STARTED"),
            Column::whole("CALLS").if_wide(),
            Column::cut("DIRECTORY"),
            Column::cut("COMMAND"),
        ],
    );
    for session in &sessions {
        table.push(vec![
            Cell::own(&*session.id),
            Cell::Own(user_name(session.user)),
            Cell::Tool(session.profile.clone().into_bytes()),
            Cell::Tool(session.state.clone().into_bytes()),
            Cell::Own(output.short_local(moment(session.started))),
            Cell::Own(session.calls.len().to_string()),
            Cell::Tool(session.directory.clone()),
            session.running(),
        ]);
    }
    output.table(&table, "There are no sessions.")
}

pub async fn show(output: &Output, prefix: &Prefix) -> Result<(), Failure> {
    let daemon = Daemon::connect().await?;
    let mut objects = daemon.objects().await?;
    let session = prefix.pick(Kind::Session, objects.sessions, |session| session.id.clone())?;
    objects.pending.retain(|pending| pending.prompt.request.session.0 == session.id);
    let grants = daemon.grants(Some(&session.id)).await?;
    if output.json {
        let mut shown = session.shown();
        shown.pending = Some(objects.pending.iter().map(|pending| pending.id.as_str()).collect());
        shown.grants = Some(grants.iter().map(Grant::shown).collect());
        return output.json(&shown);
    }
    let mut fields = vec![
        ("session", Cell::own(&*session.id)),
        ("user", Cell::Own(user_name(session.user))),
        ("profile", Cell::Tool(session.profile.clone().into_bytes())),
        ("directory", Cell::Tool(session.directory.clone())),
        (
            "state",
            Cell::own(match session.state.as_str() {
                "lost" => "lost (its supervisor has not come back to the restarted daemon yet)",
                other => other,
            }),
        ),
        ("started", Cell::Own(output.local(moment(session.started)))),
    ];
    if !session.unit.is_empty() {
        fields.push(("unit", Cell::Tool(session.unit.clone().into_bytes())));
    }
    let calls: Vec<String> =
        session.calls.iter().map(|call| format!("call {} (pid {})", call.number, call.pid)).collect();
    fields
        .extend(calls.iter().zip(&session.calls).map(|(name, call)| (name.as_str(), Cell::Command(call.argv.clone()))));
    let waiting = |pending: &Pending| format!("{} ({} left)", pending.id, left(pending.prompt.deadline));
    fields.extend(objects.pending.iter().map(|pending| ("waits", Cell::Own(waiting(pending)))));
    fields.extend(grants.iter().map(|grant| ("granted", grant.in_words())));
    output.fields(&fields)
}

#[derive(Serialize)]
struct Stopped<'a> {
    stopped: &'a str,
}

pub async fn stop(output: &Output, prefix: &Prefix) -> Result<(), Failure> {
    let daemon = Daemon::connect().await?;
    let own = nix::unistd::getuid().as_raw();
    let (id, others) = match (daemon.session(prefix).await, prefix.whole(Kind::Session)) {
        (Ok(session), _) => (session.id, session.user != own),
        // Of somebody else, perhaps: polkit may let this user stop it without seeing it.
        (Err(Failure::NotFound { .. }), Some(id)) => (id.to_owned(), true),
        (Err(failure), _) => return Err(failure),
    };
    let _agent = super::polkit::TextAgent::start_if(others);
    daemon.stop(&id).await.map_err(|failure| match failure {
        Failure::TooLate(_) => Failure::NotFound { kind: Kind::Session, prefix: prefix.clone() },
        other => other,
    })?;
    if output.json { output.json(&Stopped { stopped: &id }) } else { output.line(&format!("Stopped {id}.")) }
}

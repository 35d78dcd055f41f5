//! `ask`: the questions of all sessions of the caller, one after the other, on this terminal. Runs as the caller, as a consent
//! agent that is asked like any other.

use clap::Args;

use super::daemon::Daemon;
use super::failure::Failure;
use super::ids::Prefix;
use super::output::{Output, user_name};
use super::polkit::TextAgent;
use crate::common::access::Level;
use crate::common::consent::{Answer, Asking, ConsentAgent, ConsentError, Prompt};
use crate::common::details::{answer_to_bus, session_id};
use crate::consent::bus::{BusAgent, BusError, Registration, drive};
use crate::consent::plain::Plain;
use crate::consent::terminal::{Terminal, Timing, Unshared, tty};
use crate::ctl::proxies::ManagerProxy;
use crate::ctl::terminal::{CallersTerminal, standard_terminals};

#[derive(Debug, Args)]
pub struct Ask {
    /// Line by line, without moving the cursor, colours or keys: for screen readers, simple terminals, and pipes
    #[arg(long)]
    pub plain: bool,

    /// The questions of this session only
    #[arg(long, value_name = "SESSION")]
    pub session: Option<Prefix>,
}

pub async fn ask(output: &Output, arguments: &Ask) -> Result<(), Failure> {
    if output.json {
        return Err(Failure::Usage(
            "questions are no JSON; gatedctl pending --json and gatedctl watch --json are".into(),
        ));
    }
    let daemon = Daemon::connect().await?;
    // Starts it, where it can be; without it nobody asks anything.
    daemon.manager.version().await?;
    let session = match &arguments.session {
        Some(prefix) => {
            let id = daemon.session(prefix).await?.id;
            Some(session_id(&id).map_err(|_| Failure::Nonsense("a session with a wrong id".into()))?)
        }
        None => None,
    };
    let person = user_name(nix::unistd::getuid().as_raw());
    let (kind, agent) = agent(arguments, &person)?;
    let registered = BusAgent::register(&daemon.connection, Registration { kind, session }).await;
    let mut bus = registered.map_err(|error| match error {
        BusError::Bus(error) => Failure::from(error),
        BusError::Refused(why) => Failure::NotPermitted(format!("gatedd takes no consent agent from here ({why})")),
    })?;
    output.line("Questions are asked here as they come. ^C leaves; what waits goes on waiting.")?;
    let mut proving = Proving { agent, manager: daemon.manager.clone() };
    match drive(&mut bus, &mut proving).await {
        Ok(()) => Err(Failure::NoDaemon("the bus is gone".into())),
        // The end of the input is the end of the work.
        Err(_) => {
            bus.unregister().await;
            Ok(())
        }
    }
}

/// Who asks: on a terminal that obeys the dialog of `gated-run`, else line by line.
fn agent(arguments: &Ask, person: &str) -> Result<(&'static str, Box<dyn ConsentAgent>), Failure> {
    let term = std::env::var("TERM").unwrap_or_default();
    let [stdin, stdout, _] = standard_terminals();
    if arguments.plain || !stdin || !stdout || !tty::is_capable(&term) {
        return Ok(("plain", Box::new(Plain::new(person))));
    }
    let terminal = CallersTerminal::find()?.ok_or_else(|| Failure::Usage("there is no terminal".into()))?;
    let own = std::os::fd::AsFd::as_fd(&terminal).try_clone_to_owned()?;
    let agent = Terminal::new(own, &term, person, Unshared, Timing::default())?;
    Ok(("terminal", Box::new(agent)))
}

/// Has the person prove who they are where a yes needs it, before the next question has the terminal.
struct Proving {
    agent: Box<dyn ConsentAgent>,
    manager: ManagerProxy<'static>,
}

impl Proving {
    async fn converse(&mut self, prompt: &Prompt) -> Result<Answer, ConsentError> {
        let answer = self.agent.ask(prompt).await?;
        let needs_proof = prompt.request.level == Level::Authenticate && answer.says_yes();
        if !needs_proof || nix::unistd::geteuid().is_root() {
            return Ok(answer);
        }
        let _agent = TextAgent::start_if(true);
        let (decision, scope) = answer_to_bus(&answer);
        match self.manager.decide(&prompt.id.to_string(), decision, scope).await.map_err(Failure::from) {
            // The daemon says that it is over.
            Ok(()) => std::future::pending().await,
            Err(failure) => {
                println!("Not allowed: {failure}");
                Ok(Answer::Deny)
            }
        }
    }
}

impl ConsentAgent for Proving {
    fn name(&self) -> String {
        self.agent.name()
    }

    fn ask<'a>(&'a mut self, prompt: &'a Prompt) -> Asking<'a> {
        Box::pin(self.converse(prompt))
    }
}

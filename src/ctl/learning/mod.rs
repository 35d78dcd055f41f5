//! The end of `gated-run --learn`, and `gatedctl policy learn`: from events or records to a profile that is proposed, looked
//! over rule by rule, and put where it belongs. Runs as the caller, outside of sessions; the words are a tool's, escaped.

mod place;
mod review;
pub mod told;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use place::{PlaceError, put_new, put_over};
pub use review::{Person, Reviewed, review};
pub use told::{Learner, Source};

use crate::common::text;
use crate::policy::learn::{self, Proposal, Subject};
use crate::policy::{self, Context, Policy, PolicyError, ProfileSelector};

/// What a proposal is checked by: what the guards of coding agents keep is kept in every proposal.
const GUARDS: &str = "coder";

/// A proposal, and where it can be put.
pub struct Draft {
    pub proposal: Proposal,
    /// The profile that the rules are added to, where none can be extended by its name: the text of its file.
    base_text: Option<String>,
    context: Context,
}

/// What is said before it begins.
pub const WARNING: &str =
    "LEARNING: nothing is asked; what the profile would ask about or deny is done, within the ceiling, and recorded";

/// No proposal; one line.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    #[error("the profile that the session learned under: {0}")]
    Base(#[source] PolicyError),
    #[error("the proposed profile does not load: {0}")]
    Proposed(#[source] PolicyError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("cannot {what}: {source}")]
    Step { what: &'static str, source: io::Error },
}

/// What came of what was seen.
pub struct Summary {
    pub allowed: usize,
    pub asked: usize,
    pub denied: usize,
}

impl Draft {
    /// The proposal for everything that was seen. `name` is what the profile is to be called.
    pub fn new(learner: &Learner, base: &ProfileSelector, name: &str, context: Context) -> Result<Draft, LearnError> {
        let read = |path: &Path| fs::read_to_string(path);
        let base_profile = policy::load(base.clone(), &context, &read).map_err(LearnError::Base)?;
        let by_name = ProfileSelector::Name(base_profile.name.clone());
        let is_named = match base {
            ProfileSelector::Name(_) => true,
            ProfileSelector::File(_) => {
                policy::load(by_name, &context, &read).is_ok_and(|found| found.rules == base_profile.rules)
            }
        };
        let base_text = match base {
            ProfileSelector::File(path) if !is_named => {
                Some(fs::read_to_string(path).map_err(step("read the profile"))?)
            }
            _ => None,
        };
        let guards = policy::load(ProfileSelector::Name(GUARDS.to_owned()), &context, &read);
        let base = Policy::new(&base_profile);
        // Where the directory is none that coding agents work in, its rules are held as for another one.
        let guards = match guards {
            Ok(guards) => guards,
            Err(_) => {
                let elsewhere = Context { cwd: context.home.join(b".gated-learn"), ..context.clone() };
                policy::load(ProfileSelector::Name(GUARDS.to_owned()), &elsewhere, &read).map_err(LearnError::Base)?
            }
        };
        let subject = Subject { name, base: &base, guards: &Policy::new(&guards) };
        let mut proposal = learn::propose(&learner.seen, &subject);
        if learner.dropped > 0 {
            proposal.notes.push(format!(
                "{} events were lost on their way: this is not all. gatedctl policy learn reads the audit log, which has them.",
                learner.dropped
            ));
        }
        Ok(Draft { proposal, base_text, context })
    }

    /// The text above the rules.
    pub fn header(&self) -> String {
        match &self.base_text {
            Some(text) => {
                let notes: String = self.proposal.notes.iter().map(|note| format!("# {note}\n")).collect();
                format!(
                    "{}\n\n# Learned: what follows was seen to be needed, and is yours to judge.\n{notes}",
                    text.trim_end()
                )
            }
            None => self.proposal.header(),
        }
    }

    pub fn set_name(&mut self, name: &str) {
        self.proposal.name = name.to_owned();
    }

    /// Whether the name can be chosen.
    pub fn extends(&self) -> bool {
        self.base_text.is_none()
    }

    /// The whole file, with every rule as it is proposed.
    pub fn text(&self) -> String {
        let rules = self.proposal.rules.iter().map(|rule| format!("\n{}", rule.text(None)));
        std::iter::once(self.header()).chain(rules).collect()
    }

    /// Loads a text as it would be from a file, and says what of what was seen goes through under it.
    pub fn check(&self, text: &str, learner: &Learner) -> Result<Summary, LearnError> {
        let place = PathBuf::from("proposal.toml");
        let read = |path: &Path| if path == place { Ok(text.to_owned()) } else { fs::read_to_string(path) };
        let profile = policy::load(ProfileSelector::File(place.clone()), &self.context, &read);
        let policy = Policy::new(&profile.map_err(LearnError::Proposed)?);
        let replayed = learn::replay(&policy, &learner.seen);
        Ok(Summary { allowed: replayed.allowed, asked: replayed.asked.len(), denied: replayed.denied.len() })
    }
}

fn step(what: &'static str) -> impl FnOnce(io::Error) -> LearnError {
    move |source| LearnError::Step { what, source }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { allowed, asked, denied } = self;
        write!(f, "of what was seen, {allowed} would go through without a question, {asked} would be asked for")?;
        if *denied > 0 { write!(f, ", {denied} would be denied") } else { Ok(()) }
    }
}

/// What a run ends with: where the proposal goes to.
pub struct Ending<'a> {
    pub learner: &'a Learner,
    pub base: ProfileSelector,
    pub context: Context,
    /// `--learn-to`.
    pub to: Option<&'a Path>,
}

/// A name for a profile that was learned in this directory.
pub fn name_for(context: &Context) -> String {
    let directory: String = String::from_utf8_lossy(context.cwd.file_name())
        .chars()
        .map(|one| if one.is_ascii_alphanumeric() || one == '-' { one.to_ascii_lowercase() } else { '-' })
        .take(40)
        .collect();
    format!("learned-{directory}").trim_end_matches('-').to_owned()
}

/// Proposes, and has a person look it over where there is one. Lines for stderr go there as they come.
pub fn conclude(ending: Ending<'_>) -> Result<(), LearnError> {
    let Ending { learner, base, context, to } = ending;
    let name = match to.and_then(Path::file_stem).and_then(|stem| stem.to_str()) {
        Some(stem) if policy::load::is_profile_name(stem) => stem.to_owned(),
        _ => name_for(&context),
    };
    let folder = context.home.as_path().join(policy::load::USER_FOLDER);
    let mut draft = Draft::new(learner, &base, &name, context)?;
    if draft.proposal.rules.is_empty() {
        eprintln!("gated-run: learned: the profile {} asks about nothing that was done", draft.proposal.base);
        draft.proposal.notes.iter().for_each(|note| eprintln!("gated-run: learned: {note}"));
        return Ok(());
    }
    let text = draft.text();
    let summary = draft.check(&text, learner)?;
    if let Some(to) = to {
        put_new(to, &text)?;
        eprintln!("gated-run: learned: {} rules are proposed in {}: {summary}", draft.proposal.rules.len(), shown(to));
        return Ok(());
    }
    let Some(mut person) = Person::find() else {
        eprintln!("gated-run: learned: a profile is proposed: {summary}");
        eprint!("{text}");
        return Ok(());
    };
    match review(&mut person, &mut draft, learner, &folder)? {
        Reviewed::Written(place) => {
            eprintln!("gated-run: learned: the profile is in {}", shown(&place));
        }
        Reviewed::Left => eprintln!("gated-run: learned: nothing is written"),
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    text::escaped(path.as_os_str().as_encoded_bytes())
}

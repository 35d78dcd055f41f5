//! `policy edit`: a policy file in the caller's editor, checked, shown and installed. Runs as the caller: a file of the user's
//! own is written here, one of the machine's by the daemon, which checks it again with everything else.

use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use similar::TextDiff;

use super::arguments::Edit;
use super::cat::text_shown;
use super::command;
use super::diff;
use super::place::Here;
use crate::common::text;
use crate::ctl::control::daemon::Daemon;
use crate::ctl::control::failure::Failure;
use crate::ctl::control::output::Output;
use crate::ctl::control::polkit::TextAgent;
use crate::ctl::proxies::Options;
use crate::policy::compare::compare;
use crate::policy::lint::{self, Finding};
use crate::policy::load::{BUILT_IN, FOLDERS, is_profile_name};
use crate::policy::{Ceiling, PolicyError, Profile, ProfileSelector, ceiling, load};

/// What is edited.
struct Target {
    /// `None` for the ceiling.
    profile: Option<String>,
    /// Where it goes.
    path: PathBuf,
    is_users: bool,
    /// What holds now; empty if nothing does.
    old: String,
}

pub async fn edit(output: &Output, here: &Here, arguments: &Edit) -> Result<(), Failure> {
    if output.json {
        return Err(Failure::Usage("an editor has no JSON".to_owned()));
    }
    let target = Target::find(here, arguments)?;
    let copy = Copy::new(&target)?;
    let begun = match target.old.is_empty() {
        true => target.beginning(),
        false => target.old.clone(),
    };
    copy.write(&begun)?;
    let text = loop {
        copy.open()?;
        let text = copy.read()?;
        if text == target.old || text.trim().is_empty() {
            return output.line("Nothing changed.");
        }
        match target.check(here, &text) {
            Ok(()) => break text,
            Err(error) => {
                output.line(&lint::of_error(&error).to_string())?;
                if !asked("Edit it again? [Y/n] ", true)? {
                    return Err(Failure::Unhealthy);
                }
            }
        }
    };
    target.show(output, here, &text)?;
    if !arguments.yes && !asked(&format!("Install {}? [y/N] ", shown(&target.path)), false)? {
        output.line("Nothing is installed.")?;
        return Err(Failure::Unhealthy);
    }
    target.install(here, &text).await?;
    output.line(&format!("Installed {}.", shown(&target.path)))
}

impl Target {
    fn find(here: &Here, arguments: &Edit) -> Result<Target, Failure> {
        let Some(name) = &arguments.profile else {
            let path = Path::new(ceiling::FOLDERS[0]).join(ceiling::FILE);
            let held = here.ceilings().into_iter().next();
            let old = match held {
                Some((path, text)) => text.map_err(|source| Failure::File { what: "read", path, source })?,
                None => String::new(),
            };
            return Ok(Target { profile: None, path, is_users: false, old });
        };
        if !is_profile_name(name) {
            return Err(PolicyError::BadName(text::escaped(name.as_bytes())).into());
        }
        let candidates = here.candidates();
        let files = || candidates.iter().filter(|one| one.name == *name && one.path.is_some());
        let of_machine = files().find(|one| !one.is_users);
        if let Some(hides) = of_machine.filter(|_| !arguments.machine) {
            let words = format!("{} comes before a profile of your own; --machine edits that", hides.file);
            return Err(Failure::Usage(words));
        }
        let found = files().find(|one| one.is_users != arguments.machine);
        let built_in = BUILT_IN.iter().find(|(own, _)| own == name).map(|(_, text)| (*text).to_owned());
        let old = match found {
            Some(found) => found.text.clone().map_err(Failure::Refused)?,
            None => built_in.unwrap_or_default(),
        };
        let folder = if arguments.machine { PathBuf::from(FOLDERS[0]) } else { here.user_folder() };
        let path = folder.join(format!("{name}.toml"));
        Ok(Target { profile: Some(name.clone()), path, is_users: !arguments.machine, old })
    }

    /// What a file begins with that is not there yet.
    fn beginning(&self) -> String {
        match &self.profile {
            Some(name) => {
                format!("schema = 1\n\n[profile]\nname = \"{name}\"\ndescription = \"\"\nextends = [\"coder\"]\n")
            }
            None => "schema = 1\n\n[users]\n".to_owned(),
        }
    }

    fn profile(&self, here: &Here, name: &str, text: &str) -> Result<Profile, PolicyError> {
        let read = |path: &Path| if path == self.path { Ok(text.to_owned()) } else { here.read(path) };
        load(ProfileSelector::Name(name.to_owned()), &here.context, &read)
    }

    fn check(&self, here: &Here, text: &str) -> Result<(), PolicyError> {
        match &self.profile {
            Some(name) => self.profile(here, name, text).map(drop),
            None => {
                let read = |path: &Path| if path == self.path { Ok(text.to_owned()) } else { here.read(path) };
                Ceiling::load(&read).map(drop)
            }
        }
    }

    /// The lines that change, what that means, and what is odd about it.
    fn show(&self, output: &Output, here: &Here, text: &str) -> Result<(), Failure> {
        let lines = TextDiff::from_lines(&*self.old, text);
        let name = shown(&self.path);
        let written = lines.unified_diff().header(&name, &name).to_string();
        io::stdout().write_all(text_shown(&written).as_bytes())?;
        let Some(profile) = &self.profile else { return Ok(()) };
        let new = self.profile(here, profile, text)?;
        if let Ok(old) = self.profile(here, profile, &self.old) {
            output.line("")?;
            diff::show(output, &compare(&old, &new, &command::follow))?;
        }
        let findings: Vec<Finding> = super::check::of_text(here, profile, &self.path, text);
        findings.iter().try_for_each(|finding| output.line(&finding.to_string()))
    }

    async fn install(&self, here: &Here, text: &str) -> Result<(), Failure> {
        if self.is_users {
            return own(&self.path, text).map_err(|source| Failure::File {
                what: "write",
                path: self.path.clone(),
                source,
            });
        }
        if here.real(&self.path) != self.path {
            return Err(Failure::Usage("what is below another --root is not installed by the daemon".to_owned()));
        }
        let (kind, name) = match &self.profile {
            Some(name) => ("profile", name.as_str()),
            None => ("ceiling", ""),
        };
        let daemon = Daemon::connect().await?;
        let _agent = TextAgent::start_if(true);
        daemon.policy().await?.install(kind, name, text.as_bytes(), Options::new()).await?;
        Ok(())
    }
}

fn shown(path: &Path) -> String {
    text::escaped(path.as_os_str().as_encoded_bytes())
}

/// A file of the user's own: the old contents or the new ones, at any moment.
fn own(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let new = path.with_extension("toml.new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    fs::File::open(folder)?.sync_all()
}

/// A copy in a directory of its own, that nobody else sees and that goes when it is dropped.
struct Copy {
    folder: PathBuf,
    file: PathBuf,
}

impl Copy {
    fn new(target: &Target) -> Result<Copy, Failure> {
        let template = std::env::temp_dir().join("gatedctl-XXXXXX");
        let failed = |errno: nix::errno::Errno| Failure::File {
            what: "make a directory like",
            path: template.clone(),
            source: errno.into(),
        };
        let folder = nix::unistd::mkdtemp(&template).map_err(failed)?;
        let name = target.path.file_name().unwrap_or_default();
        Ok(Copy { file: folder.join(name), folder })
    }

    fn failed(&self, what: &'static str) -> impl Fn(io::Error) -> Failure {
        let path = self.file.clone();
        move |source| Failure::File { what, path: path.clone(), source }
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        fs::write(&self.file, text).map_err(self.failed("write"))
    }

    fn read(&self) -> Result<String, Failure> {
        fs::read_to_string(&self.file).map_err(self.failed("read"))
    }

    /// The editor is a command line, as for git and sudoedit.
    fn open(&self) -> Result<(), Failure> {
        let named = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| "vi".to_owned());
        let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg(&editor).arg(&self.file).status();
        let status = status.map_err(self.failed("open an editor on"))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::Refused(format!("the editor {} failed ({status})", text::escaped(editor.as_bytes()))))
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

/// A yes or no from standard input; what is neither is what a plain Enter says, and the end of input is a no.
fn asked(question: &str, otherwise: bool) -> Result<bool, Failure> {
    io::stdout().write_all(question.as_bytes())?;
    io::stdout().flush()?;
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        io::stdout().write_all(b"\n")?;
        return Ok(false);
    }
    Ok(match line.trim() {
        "y" | "Y" | "yes" => true,
        "n" | "N" | "no" => false,
        _ => otherwise,
    })
}

//! `policy cat`: the files of a profile with where they come from, or the one profile that they come to. Runs as the caller.

use std::io::{self, Write};
use std::path::Path;

use super::arguments::Cat;
use super::place::Here;
use crate::common::text;
use crate::ctl::control::failure::Failure;
use crate::ctl::control::output::Output;
use crate::policy::load::BUILT_IN;
use crate::policy::{ProfileSelector, layers, merged};

pub fn cat(output: &Output, here: &Here, arguments: &Cat) -> Result<(), Failure> {
    if arguments.merged {
        let profile = here.in_force(arguments.profile.clone())?;
        let text = merged::written(&profile);
        return if output.json { output.json(&profile) } else { written(&text) };
    }
    let layers = layers::of(&arguments.profile, &here.context, &|path: &Path| here.read(path))?;
    if output.json {
        return output.json(&layers);
    }
    let candidates = here.candidates();
    let mut shown = String::new();
    for layer in &layers {
        if !shown.is_empty() {
            shown.push('\n');
        }
        shown.push_str(&format!("# {}\n", layer.file));
        let named = matches!(arguments.profile, ProfileSelector::Name(_)) || layer.file.starts_with("built-in:");
        let hidden = candidates.iter().filter(|other| named && other.name == layer.name && other.file != layer.file);
        for hidden in hidden.filter(|_| !BUILT_IN.iter().any(|(name, _)| layer.file == format!("built-in:{name}"))) {
            shown.push_str(&format!("# in place of {}\n", hidden.file));
        }
        shown.push_str(&text_shown(&layer.text));
    }
    written(&shown)
}

/// A file's own lines; what would act on a terminal is escaped.
pub fn text_shown(file: &str) -> String {
    let mut shown = String::new();
    for line in file.lines() {
        let plain = line.chars().all(|character| character == '\t' || character == ' ' || text::is_showable(character));
        shown.push_str(&if plain { line.to_owned() } else { text::escaped(line.as_bytes()) });
        shown.push('\n');
    }
    shown
}

fn written(text: &str) -> Result<(), Failure> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}

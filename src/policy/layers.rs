//! The files of a profile, in the order in which they are laid over each other. Runs as whoever reads a policy.

use std::io;
use std::path::Path;

use serde::Serialize;

use super::load::{self, Context, PolicyError, ProfileSelector};

/// One file of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// The profile's name.
    pub name: String,
    /// A path, or `built-in:NAME`.
    pub file: String,
    pub text: String,
}

/// What a profile extends, then the profile itself. Refuses what [`super::load()`] refuses.
pub fn of(
    selector: &ProfileSelector,
    context: &Context,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Vec<Layer>, PolicyError> {
    let layers = load::layers(selector, context, read)?;
    Ok(layers
        .into_iter()
        .map(|(text, file)| Layer { name: file.profile.name.get_ref().clone(), file: text.name, text: text.text })
        .collect())
}

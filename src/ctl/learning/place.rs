//! Puts a profile where it belongs. Runs as the caller, in directories of the caller's.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::common::text;

/// It is not where it was to be.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("{} is there already", text::escaped(.0.as_os_str().as_encoded_bytes()))]
    Exists(PathBuf),
    #[error("cannot write {}: {source}", text::escaped(path.as_os_str().as_encoded_bytes()))]
    File { path: PathBuf, source: io::Error },
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> PlaceError {
    let path = path.to_path_buf();
    move |source| match source.kind() {
        io::ErrorKind::AlreadyExists => PlaceError::Exists(path),
        _ => PlaceError::File { path, source },
    }
}

/// Writes a file that must not be there, nor a link in its place.
pub fn put_new(path: &Path, text: &str) -> Result<(), PlaceError> {
    let mut file = create(path).map_err(failed(path))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed(path))
}

/// Writes a file whole, in place of another if there is one. Folders that are not there are made, for the owner alone.
pub fn put_over(path: &Path, text: &str) -> Result<(), PlaceError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed(folder))?;
    // No profile has a name like this, so that it is none until it is whole.
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    put_new(&beside, text)?;
    fs::rename(&beside, path).map_err(|source| {
        let _unneeded = fs::remove_file(&beside);
        failed(path)(source)
    })
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)
}

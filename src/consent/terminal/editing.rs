//! A command is changed on the screen of a prompt: [`super::editor`] and [`super::keys`] on the terminal. Runs in the client, as
//! the person who gave the command. Enter takes the line only if it comes alone: not within what was pasted.

use tokio::time::timeout;

use super::editor::{Edit, Editor};
use super::keys::{Key, Keys};
use super::tty::{MOST, Shown, Tty};
use super::{draw, gone, seconds_left, unavailable_here};
use crate::common::consent::{ConsentError, Prompt};
use crate::common::details::MAX_EDITED;
use crate::common::wire::WindowSize;

/// Said where an Enter did not count.
const PASTED: &str = "an end of line that comes with other text counts for nothing; press Enter alone";

/// Has the person change `argv`. `None` if they left it as it was.
pub async fn edit(
    shown: &Shown<'_>,
    tty: &Tty<'_>,
    prompt: &Prompt,
    argv: &[Vec<u8>],
) -> Result<Option<Vec<Vec<u8>>>, ConsentError> {
    let mut editor = Editor::new(argv.iter().map(Vec::as_slice));
    let mut keys = Keys::default();
    let mut size = tty.size();
    let mut hint: Option<String> = None;
    let mut is_stale = true;
    loop {
        if is_stale || tty.size() != size {
            size = tty.size();
            let lines = draw::editing(size.columns.into(), size.rows.into(), hint.as_deref());
            shown.page(&lines.ok_or_else(unavailable_here)?).await.map_err(gone)?;
            shown.line("").await.map_err(gone)?;
            is_stale = false;
        }
        line(shown, &editor, prompt, size).await?;
        // Also for the seconds that are left. An Escape alone is known by what does not follow.
        let pause = if keys.is_within() { shown.pause() } else { std::time::Duration::from_secs(1) };
        let typed = match timeout(pause, shown.keys()).await {
            Ok(read) => {
                let mut bytes = read.map_err(gone)?;
                // Whatever follows at once on an Enter, or on as much as one read brings, was pasted with it.
                while matches!(bytes.as_slice(), [b'\r' | b'\n']) || bytes.len().is_multiple_of(MOST) {
                    let Ok(more) = timeout(shown.pause(), shown.keys()).await else { break };
                    bytes.extend(more.map_err(gone)?);
                }
                let is_alone = bytes.len() == 1;
                let mut typed = keys.read(&bytes);
                if typed.contains(&Key::Enter) && !is_alone {
                    typed.iter_mut().filter(|key| **key == Key::Enter).for_each(|key| *key = Key::Character(' '));
                    (hint, is_stale) = (Some(PASTED.to_owned()), true);
                }
                typed
            }
            Err(_) => keys.pause().into_iter().collect(),
        };
        for key in typed {
            match editor.key(key) {
                Edit::On => {}
                Edit::Leave => return Ok(None),
                Edit::Take => match taken(&editor) {
                    Ok(words) if words == argv => return Ok(None),
                    Ok(words) => return Ok(Some(words)),
                    Err(error) => (hint, is_stale) = (Some(error), true),
                },
            }
        }
    }
}

/// What was written, or what is wrong with it.
fn taken(editor: &Editor) -> Result<Vec<Vec<u8>>, String> {
    let words = editor.words().map_err(|error| error.to_string())?;
    let length = words.iter().map(|word| word.len().saturating_add(1)).fold(0, usize::saturating_add);
    if length > MAX_EDITED { Err(format!("it is longer than {MAX_EDITED} bytes")) } else { Ok(words) }
}

async fn line(shown: &Shown<'_>, editor: &Editor, prompt: &Prompt, size: WindowSize) -> Result<(), ConsentError> {
    let columns = usize::from(size.columns);
    let before = draw::before_input(seconds_left(prompt));
    let (seen, left) = editor.view(columns.saturating_sub(before.len()));
    let (whole, left) = (before.clone() + &seen, before + &left);
    shown.edited(&whole, &left, columns).await.map_err(gone)
}

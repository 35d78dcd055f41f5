//! The text of `/proc/PID/stat`, proc_pid_stat(5). Pure; the command's name in it is a tool's.

/// What does not change while a process lives, but for its parent: that becomes another when the first one dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub parent: i32,
    /// Clock ticks after boot; with the pid it names a process for as long as the pid is not reused.
    pub started: u64,
}

/// Fields 4 (parent) and 22 (start time) of proc_pid_stat(5); the command's name in field 2 may hold anything, so counting
/// starts behind it. `None` for what is no such text.
pub fn parse(text: &[u8]) -> Option<Stat> {
    let behind = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(text.get(behind.checked_add(1)?..)?).ok()?;
    let mut fields = rest.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Stat { parent, started })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_command_name_does_not_shift_the_fields() {
        let text = b"12 (a) b) R 1 2 3) S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 1";
        assert_eq!(parse(text), Some(Stat { parent: 7, started: 98765 }));
    }
}

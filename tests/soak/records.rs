//! The audit log held against what workers say: each yes that was used and each no that was heard is in it, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gated::daemon::audit::names;
use serde_json::Value;

use crate::journal::{Attempt, Came};

/// The results of all records, by object, and how many records there are.
#[derive(Default)]
pub struct Records {
    by_object: BTreeMap<String, Vec<String>>,
    requests: BTreeSet<String>,
    pub count: usize,
    pub results: BTreeMap<String, usize>,
}

impl Records {
    /// All of a log, the files that it went on from first. A line that is not whole is a failure: nothing here fills its disk.
    pub fn read(log: &Path) -> Result<Records, String> {
        let mut records = Records::default();
        let mut files: Vec<_> = names(log).filter(|file| file.exists()).collect();
        files.reverse();
        for file in files {
            let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            for line in text.split_inclusive('\n') {
                let record: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
                records.take(&record)?;
            }
        }
        Ok(records)
    }

    fn take(&mut self, record: &Value) -> Result<(), String> {
        let word = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        let (object, result) = (word("object"), word("result"));
        if let Some(request) = record["request"].as_str()
            && !self.requests.insert(request.to_owned())
        {
            return Err(format!("one request was decided twice: {record}"));
        }
        let times = record["times"].as_u64().unwrap_or(1) as usize;
        self.count += 1;
        *self.results.entry(result.clone()).or_default() += times;
        self.by_object.entry(object).or_default().push(result);
        Ok(())
    }

    fn of(&self, object: &str, results: &[&str]) -> usize {
        self.by_object.get(object).map_or(0, |all| all.iter().filter(|one| results.contains(&one.as_str())).count())
    }

    /// One worker's attempts at what is asked for. `is_calm`: the daemon was there all the time, so a no is recorded too.
    pub fn settle(&self, attempts: &[&Attempt], outside: &Path, is_calm: bool) -> Result<(), String> {
        let mut by_name: BTreeMap<&str, Vec<&Attempt>> = BTreeMap::new();
        for attempt in attempts.iter().filter(|attempt| attempt.name().starts_with("out:")) {
            by_name.entry(attempt.name()).or_default().push(attempt);
        }
        for (name, attempts) in by_name {
            let name = name.trim_start_matches("out:");
            let object = outside.join(name).display().to_string();
            let kind = name.split('-').next().unwrap_or_default();
            let count = |fits: &dyn Fn(&Option<Came>) -> bool| attempts.iter().filter(|one| fits(&one.came)).count();
            let done = count(&|came| matches!(came, Some(Came::Ok(_))));
            let refused = count(&|came| matches!(came, Some(Came::Errno(libc::EACCES | libc::EPERM))));
            let permitted = self.of(&object, &["approved", "granted", "allowed"]);
            let turned_down = self.of(&object, &["denied", "timeout", "not_permitted", "cancelled"]);
            let known = || format!("{object}: {attempts:?}; {:?}", self.by_object.get(&object));
            match kind {
                "no" | "deny" | "never" if done > 0 || permitted > 0 => {
                    return Err(format!("happened against a no: {}", known()));
                }
                _ if permitted < done => return Err(format!("happened without a record: {}", known())),
                // Asked for and given, then something failed, or nobody was there any more.
                _ if permitted > attempts.len() => return Err(format!("recorded more often than tried: {}", known())),
                _ if is_calm && turned_down < refused => return Err(format!("refused without a record: {}", known())),
                _ => {}
            }
        }
        Ok(())
    }

    /// Objects below `outside` that were permitted and that no attempt names.
    pub fn unexplained(&self, outside: &Path, known: &BTreeSet<String>) -> Vec<String> {
        let permits =
            |all: &Vec<String>| all.iter().any(|one| ["approved", "granted", "allowed"].contains(&one.as_str()));
        let objects = self.by_object.iter().filter(|(_, all)| permits(all)).map(|(object, _)| object);
        let named = |object: &&String| {
            Path::new(object).strip_prefix(outside).is_ok_and(|name| !known.contains(&*name.to_string_lossy()))
        };
        objects.filter(named).cloned().collect()
    }
}

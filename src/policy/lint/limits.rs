//! Floors that hold less than they seem to. Pure.

use super::{Finding, Severity};
use crate::common::access::{Access, Level};
use crate::policy::model::Rule;

/// What there is to say of the floors of a ceiling.
pub fn floors(rules: &[Rule]) -> Vec<Finding> {
    rules.iter().filter(|rule| rule.is_ceiling && rule.level > Level::Allow).filter_map(of_floor).collect()
}

/// Reads are held where something was found; nobody looks through a whole machine.
fn of_floor(rule: &Rule) -> Option<Finding> {
    if !rule.access.contains(&Access::Read) {
        return None;
    }
    let pattern =
        rule.path.iter().find(|pattern| pattern.is_floating() && pattern.literal_prefix().parent().is_none())?;
    Some(Finding {
        file: rule.file.clone(),
        line: rule.line,
        column: 1,
        severity: Severity::Warning,
        check: "floor-reads".to_owned(),
        message: format!(
            "floor `{}` holds reads of `{pattern}` in the home and the workspace of a session, and nowhere else",
            rule.id
        ),
        remedy: Some("Name directories where such files are besides: /srv/**/NAME.".to_owned()),
    })
}

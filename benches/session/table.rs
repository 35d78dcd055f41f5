//! Figures as a table: bare, in a session, what is allowed.

use std::fmt::Write;

/// Several runs of one thing. The figure is the slowest of the fastest tenth: what else the machine does only ever adds.
#[derive(Clone, Debug, Default)]
pub struct Runs(Vec<f64>);

impl Runs {
    pub fn new(mut runs: Vec<f64>) -> Runs {
        runs.sort_by(f64::total_cmp);
        Runs(runs)
    }

    fn at(&self, share: f64) -> f64 {
        let at = (self.0.len() as f64 * share) as usize;
        self.0.get(at).copied().unwrap_or(f64::NAN)
    }

    pub fn figure(&self) -> f64 {
        self.at(0.1)
    }

    pub fn median(&self) -> f64 {
        self.at(0.5)
    }
}

/// What a figure may be at the most.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    None,
    /// The figure in a session.
    AtMost(f64),
    /// Its distance from the bare one.
    MoreThanBare(f64),
}

pub struct Line {
    pub name: String,
    pub unit: &'static str,
    pub bare: Option<Runs>,
    pub gated: Runs,
    pub target: Target,
}

impl Line {
    /// `None` without a target.
    pub fn passes(&self) -> Option<bool> {
        let bare = self.bare.as_ref().map_or(0.0, Runs::figure);
        match self.target {
            Target::None => None,
            Target::AtMost(most) => Some(self.gated.figure() <= most),
            Target::MoreThanBare(more) => Some(self.gated.figure() - bare <= more),
        }
    }
}

/// The whole table as text.
pub fn show(lines: &[Line]) -> String {
    let mut text =
        format!("{:<38} {:>9} {:>9} {:>9} {:>5}  {:<13} {}\n", "", "bare", "gated", "median", "unit", "target", "");
    for line in lines {
        let number = |value: f64| if value < 10.0 { format!("{value:.2}") } else { format!("{value:.1}") };
        let bare = line.bare.as_ref().map_or(String::new(), |runs| number(runs.figure()));
        let target = match line.target {
            Target::None => String::new(),
            Target::AtMost(most) => format!("<= {most}"),
            Target::MoreThanBare(more) => format!("<= bare + {}", number(more)),
        };
        let verdict = match line.passes() {
            None => "",
            Some(true) => "pass",
            Some(false) => "FAIL",
        };
        let (gated, median) = (number(line.gated.figure()), number(line.gated.median()));
        let row =
            format!("{:<38} {bare:>9} {gated:>9} {median:>9} {:>5}  {target:<13} {verdict}", line.name, line.unit);
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}

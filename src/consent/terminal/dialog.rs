//! The conversation at a prompt, without a terminal: what was typed goes in, what to do comes out. Runs in the process that
//! owns the terminal; the bytes come from a keyboard, or from a terminal that a tool made to reply.

use std::time::Duration;

use crate::common::consent::{Answer, Prompt};
use crate::common::decision::{Lifetime, Term, Width};

/// What a burst of typed bytes means. A burst is everything that arrives without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// A key, and whether Enter came right behind it.
    Key(char, bool),
    Enter,
    Erase,
    /// ^C.
    Interrupt,
    /// Anything else is dropped whole: escape sequences that a terminal sends when a tool asks it something, pasted text,
    /// other control characters.
    Noise,
}

/// Reads a burst.
pub fn typed(burst: &[u8]) -> Typed {
    match burst {
        [b'\r' | b'\n'] => Typed::Enter,
        [0x03] => Typed::Interrupt,
        [0x08 | 0x7f] => Typed::Erase,
        [key @ b'!'..=b'~'] => Typed::Key(char::from(*key), false),
        [key @ b'!'..=b'~', b'\r' | b'\n'] => Typed::Key(char::from(*key), true),
        _ => Typed::Noise,
    }
}

/// What a burst leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The line of input has changed.
    Line,
    /// More than that has changed.
    All,
    /// The command is to be changed.
    Edit,
    Done(Answer),
}

/// What a key asks for next, if it asks for more than Enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// For how long a yes is to hold.
    Time,
    /// For how long the same is denied.
    Block,
}

/// Times of which one can be chosen.
const TIMES: [(char, Duration); 3] =
    [('1', Duration::from_secs(600)), ('2', Duration::from_secs(3600)), ('3', Duration::from_secs(8 * 3600))];

/// The state of one prompt.
#[derive(Clone, Debug)]
pub struct Dialog {
    /// The key that Enter would act on.
    pub key: Option<char>,
    pub help: bool,
    /// 0 for the first page; the others, which say all of everything, come after it in turn.
    pub page: usize,
    /// Said once, about the last input.
    pub hint: Option<&'static str>,
    /// The question that a key has led to.
    pub asks: Option<Asks>,
    widths: Vec<Width>,
    at: usize,
    longest: Lifetime,
    max_for: Option<Duration>,
    group: bool,
    edit: bool,
}

impl Dialog {
    /// `edit`: whether the command can be changed here.
    pub fn new(prompt: &Prompt, edit: bool) -> Dialog {
        Dialog {
            key: None,
            help: false,
            page: 0,
            hint: None,
            asks: None,
            widths: prompt.offers.iter().map(|offer| offer.width).collect(),
            at: 0,
            longest: prompt.longest,
            max_for: prompt.max_for,
            group: prompt.group.is_some(),
            edit,
        }
    }

    /// How far a yes would reach.
    pub fn width(&self) -> Width {
        self.widths.get(self.at).copied().unwrap_or_default()
    }

    pub fn may_widen(&self) -> bool {
        self.widths.len() > 1
    }

    pub fn may_session(&self) -> bool {
        self.longest >= Lifetime::Session
    }

    pub fn may_always(&self) -> bool {
        self.longest >= Lifetime::Persistent
    }

    pub fn may_time(&self) -> bool {
        self.longest >= Lifetime::Until
    }

    /// What is not denied again is not worth a rule.
    pub fn may_block(&self) -> bool {
        self.longest >= Lifetime::Call
    }

    pub fn may_split(&self) -> bool {
        self.group
    }

    pub fn may_edit(&self) -> bool {
        self.edit
    }

    /// The times that can be chosen, with their keys: as far as they are allowed, and the longest one at the least.
    pub fn times(&self) -> Vec<(char, Duration)> {
        let most = self.max_for.unwrap_or(Duration::MAX);
        let times: Vec<_> = TIMES.into_iter().filter(|(_, time)| *time <= most).collect();
        if times.is_empty() { vec![('1', most)] } else { times }
    }

    pub fn input(&mut self, typed: Typed) -> Step {
        self.hint = None;
        match typed {
            Typed::Interrupt => Step::Done(Answer::Deny),
            Typed::Noise => {
                self.key = None;
                self.hint = Some("ignored: more than a key at once");
                Step::Line
            }
            Typed::Erase => {
                self.key = None;
                Step::Line
            }
            Typed::Key(key, enter) => {
                self.key = Some(key.to_ascii_lowercase());
                if enter { self.enter() } else { Step::Line }
            }
            Typed::Enter => self.enter(),
        }
    }

    fn enter(&mut self) -> Step {
        let width = self.width();
        match (self.asks, self.key.take()) {
            (_, Some('d')) => Step::Done(Answer::Deny),
            (_, None) => self.say("a key first"),
            (Some(_), Some('x')) => self.turn(None),
            (Some(Asks::Time), Some(key)) => match self.times().into_iter().find(|(own, _)| *own == key) {
                Some((_, time)) => Step::Done(Answer::For(width, time)),
                None => self.say("not one of the keys above"),
            },
            (Some(Asks::Block), Some('s')) => Step::Done(Answer::Block(width, Term::Session)),
            (Some(Asks::Block), Some('a')) => Step::Done(Answer::Block(width, Term::Always)),
            (Some(Asks::Block), Some('w')) | (None, Some('w')) if self.may_widen() => {
                self.at = self.at.saturating_add(1).checked_rem(self.widths.len()).unwrap_or(0);
                self.page = 0;
                Step::All
            }
            (Some(Asks::Block), Some(_)) => self.say("not one of the keys above"),
            (None, Some(key)) => self.enter_first(key),
        }
    }

    /// A key of the first question.
    fn enter_first(&mut self, key: char) -> Step {
        match key {
            'o' => Step::Done(Answer::Once(self.width())),
            's' if self.may_session() => Step::Done(Answer::Session(self.width())),
            'f' if self.may_time() => self.turn(Some(Asks::Time)),
            'a' if self.may_always() => Step::Done(Answer::Always(self.width())),
            'b' if self.may_block() => self.turn(Some(Asks::Block)),
            '1' if self.may_split() => Step::Done(Answer::Split),
            'e' if self.edit => Step::Edit,
            'm' => {
                self.page = self.page.saturating_add(1);
                Step::All
            }
            '?' => {
                (self.help, self.page) = (!self.help, 0);
                Step::All
            }
            'e' => self.say("not offered: a command is changed at the gated-run that it was given to"),
            's' => self.say("not offered: the rule does not let an answer hold for the session"),
            'f' => self.say("not offered: no answer to this may outlive the session"),
            'a' => self.say("not offered: no answer to this may hold for good"),
            'b' => self.say("not offered: this is asked for each time"),
            'w' => self.say("not offered: this cannot be widened"),
            '1' => self.say("not offered: it is only one"),
            _ => self.say("not one of the keys above"),
        }
    }

    fn turn(&mut self, asks: Option<Asks>) -> Step {
        (self.asks, self.page) = (asks, 0);
        Step::All
    }

    fn say(&mut self, hint: &'static str) -> Step {
        self.hint = Some(hint);
        Step::Line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialog(widths: &[Width], session: bool) -> Dialog {
        let longest = if session { Lifetime::Session } else { Lifetime::Call };
        Dialog {
            key: None,
            help: false,
            page: 0,
            hint: None,
            asks: None,
            widths: widths.to_vec(),
            at: 0,
            longest,
            max_for: None,
            group: false,
            edit: false,
        }
    }

    const ALL: [Width; 3] = [Width::Exact, Width::Directory, Width::Tree];

    #[test]
    fn a_key_alone_or_enter_alone_answers_nothing() {
        let mut dialog = dialog(&ALL, true);
        assert_eq!(dialog.input(typed(b"\r")), Step::Line);
        for key in [b"d", b"o", b"s"] {
            assert_eq!(dialog.input(typed(key)), Step::Line);
        }
        assert_eq!(dialog.input(typed(b"\x7f")), Step::Line);
        assert_eq!(dialog.input(typed(b"\n")), Step::Line);
    }

    #[test]
    fn a_key_and_enter_answer() {
        for (key, answer) in
            [(b"d", Answer::Deny), (b"o", Answer::Once(Width::Exact)), (b"S", Answer::Session(Width::Exact))]
        {
            let mut dialog = dialog(&ALL, true);
            dialog.input(typed(key));
            assert_eq!(dialog.input(typed(b"\r")), Step::Done(answer));
        }
    }

    #[test]
    fn widening_goes_round_the_offered_widths_only() {
        let mut dialog = dialog(&ALL, true);
        let mut seen = vec![dialog.width()];
        for _ in 0..3 {
            assert_eq!(dialog.input(typed(b"w\r")), Step::All);
            seen.push(dialog.width());
        }
        assert_eq!(seen, [Width::Exact, Width::Directory, Width::Tree, Width::Exact]);
        let mut narrow = super::tests::dialog(&[Width::Exact], true);
        assert_eq!(narrow.input(typed(b"w\r")), Step::Line);
        assert_eq!(narrow.width(), Width::Exact);
    }

    #[test]
    fn a_command_is_changed_only_where_it_may_be() {
        let mut dialog = dialog(&ALL, true);
        assert_eq!(dialog.input(typed(b"e\r")), Step::Line);
        assert!(dialog.hint.is_some());
        dialog.edit = true;
        assert_eq!(dialog.input(typed(b"e\r")), Step::Edit);
    }

    #[test]
    fn further_pages_change_nothing_of_the_answer() {
        let mut dialog = dialog(&ALL, true);
        assert_eq!(dialog.input(typed(b"m\r")), Step::All);
        assert_eq!(dialog.page, 1);
        assert_eq!(dialog.input(typed(b"o\r")), Step::Done(Answer::Once(Width::Exact)));
        assert_eq!(dialog.input(typed(b"w\r")), Step::All);
        assert_eq!(dialog.page, 0, "what a yes covers stands on the first page");
    }

    #[test]
    fn a_session_answer_that_is_not_offered_is_not_taken() {
        let mut dialog = dialog(&ALL, false);
        assert_eq!(dialog.input(typed(b"s\r")), Step::Line);
        assert!(dialog.hint.is_some());
    }

    #[test]
    fn replies_of_a_terminal_and_pasted_text_are_dropped_whole() {
        for burst in [
            b"\x1b[24;80Ro\r".as_slice(),
            b"\x1b]lo\r\x1b\\",
            b"\x1b[200~o\r\x1b[201~",
            b"o\x1b",
            b"oo\r",
            b"o\ro\r",
            b"\x03\x03",
            b"\x9b",
            b"",
            "ö".as_bytes(),
        ] {
            let mut dialog = dialog(&ALL, true);
            dialog.input(typed(b"o"));
            assert_eq!(typed(burst), Typed::Noise, "{burst:?}");
            assert_eq!(dialog.input(typed(burst)), Step::Line);
            assert_eq!(dialog.input(typed(b"\r")), Step::Line, "the key before {burst:?} was kept");
        }
    }

    #[test]
    fn a_time_is_one_of_those_that_are_allowed() {
        let hours = |number: u64| Duration::from_secs(3600 * number);
        let mut dialog = Dialog { longest: Lifetime::Until, max_for: Some(hours(2)), ..dialog(&ALL, true) };
        assert_eq!(dialog.input(typed(b"f\r")), Step::All);
        for not_a_time in [b"3\r", b"o\r", b"s\r"] {
            assert_eq!(dialog.input(typed(not_a_time)), Step::Line);
        }
        assert_eq!(dialog.input(typed(b"2\r")), Step::Done(Answer::For(Width::Exact, hours(1))));
        assert_eq!(dialog.input(typed(b"x\r")), Step::All);
        assert_eq!(dialog.input(typed(b"a\r")), Step::Line, "not for good");
        let short = Dialog { max_for: Some(Duration::from_secs(60)), ..dialog };
        assert_eq!(short.times(), [('1', Duration::from_secs(60))]);
    }

    #[test]
    fn a_session_answer_is_not_longer_than_it_says() {
        let mut dialog = dialog(&ALL, true);
        for beyond in [b"f\r", b"a\r", b"1\r"] {
            assert_eq!(dialog.input(typed(beyond)), Step::Line);
            assert!(dialog.hint.is_some());
        }
    }

    #[test]
    fn what_is_blocked_is_blocked_for_as_long_as_was_chosen() {
        for (key, term) in [(b"s\r", Term::Session), (b"a\r", Term::Always)] {
            let mut dialog = dialog(&ALL, true);
            assert_eq!(dialog.input(typed(b"b\r")), Step::All);
            assert_eq!(dialog.input(typed(b"w\r")), Step::All);
            assert_eq!(dialog.input(typed(b"o\r")), Step::Line, "that was another question");
            assert_eq!(dialog.input(typed(key)), Step::Done(Answer::Block(Width::Directory, term)));
        }
    }

    #[test]
    fn a_group_can_be_asked_for_one_by_one() {
        let mut dialog = Dialog { group: true, ..dialog(&ALL, false) };
        assert_eq!(dialog.input(typed(b"1\r")), Step::Done(Answer::Split));
    }
}

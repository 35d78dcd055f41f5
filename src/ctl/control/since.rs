//! `--since`: a moment, said in one of several ways. Pure, but for the clock and the local time zone.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// From when on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since(pub Timestamp);

impl std::str::FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Since, String> {
        parse(text, &Zoned::now()).map(Since)
    }
}

/// A duration before now, a time of today, a date, both, or RFC 3339.
fn parse(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    let unknown = || "expected a duration such as 10m, a time, a date, or an RFC 3339 timestamp".to_owned();
    let local = |civil: DateTime, zone: &TimeZone| civil.to_zoned(zone.clone()).map(|zoned| zoned.timestamp());
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    // A number alone would be a guess.
    if text.starts_with(|first: char| first.is_ascii_digit())
        && text.ends_with(|last: char| last.is_ascii_alphabetic())
        && !text.contains(['T', 'Z'])
        && let Ok(span) = text.parse::<Span>()
    {
        return now.checked_sub(span).map(|then| then.timestamp()).map_err(|_| "that is too long ago".to_owned());
    }
    // So would digits without what parts them.
    if !text.contains([':', '-']) {
        return Err(unknown());
    }
    let civil = text.parse::<Date>().map(|date| date.to_datetime(Time::midnight()));
    let civil = match (text.parse::<Time>(), civil, text.parse::<DateTime>()) {
        (Ok(time), Err(_), Err(_)) => now.date().to_datetime(time),
        // A date with a time is a date too, to jiff.
        (_, _, Ok(whole)) if text.contains(':') => whole,
        (_, Ok(date), _) => date,
        _ => return Err(unknown()),
    };
    local(civil, now.time_zone()).map_err(|_| unknown())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_can_be_said_in_several_ways() {
        let now: Zoned = "2026-11-22T14:30:00+00:00[UTC]".parse().unwrap();
        for (text, expected) in [
            ("10m", "2026-11-22T14:20:00Z"),
            ("2h", "2026-11-22T12:30:00Z"),
            ("1h30m", "2026-11-22T13:00:00Z"),
            ("3d", "2026-11-19T14:30:00Z"),
            ("45s", "2026-11-22T14:29:15Z"),
            ("2w", "2026-11-08T14:30:00Z"),
            ("09:05", "2026-11-22T09:05:00Z"),
            ("2026-11-20", "2026-11-20T00:00:00Z"),
            ("2026-11-20 08:15", "2026-11-20T08:15:00Z"),
            ("2026-11-20T08:15", "2026-11-20T08:15:00Z"),
            ("2026-11-20T08:15:00.25Z", "2026-11-20T08:15:00.25Z"),
            ("2026-11-20T08:15:00+02:00", "2026-11-20T06:15:00Z"),
        ] {
            assert_eq!(parse(text, &now).map(|moment| moment.to_string()), Ok(expected.to_owned()), "{text}");
        }
        for text in ["", "10", "m", "-10m", "yesterday", "10 parsecs", "25:99", "2026-13-01", "99999999999999d"] {
            assert!(parse(text, &now).is_err(), "{text}");
        }
    }
}

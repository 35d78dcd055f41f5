//! Names that are spelt in A-labels (RFC 5890) in their own letters, where these can pass for no other name's.
//!
//! Shown are names whose labels beyond ASCII are of one script that is written from left to right and without marks of its
//! own (UTS 39, "single script"), and of which each such label has a letter that no Latin one looks like. Always beside the
//! A-labels and never in their place.

use crate::common::net::HostName;
use crate::common::text::is_showable;

/// How a name with A-labels reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Letters {
    Shown(String),
    /// It could be taken for another name.
    Hidden,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    Latin,
    Greek,
    Cyrillic,
    Hiragana,
    Katakana,
    Hangul,
    Han,
}

/// Letters that look like a Latin one, alone (UTS 39, "confusables").
const LIKE_LATIN: &str = "абԁеһіјӏӀорԛѕсԝхуъьЬҽгпѵѡвкмнтԍқәɡɩʟαβγεικνρυωηοτχϲϳѐёїїўќѓӑӓӕӗӧӱӥӣӯѳ";

/// `None` for a name without A-labels.
pub fn letters(name: &HostName) -> Option<Letters> {
    if !name.labels().any(|label| label.starts_with("xn--")) {
        return None;
    }
    let (unicode, read) = idna::domain_to_unicode(name.as_str());
    // What is shown must be this name and no other.
    let is_same = HostName::parse(unicode.as_bytes()).as_ref() == Ok(name);
    let is_plain = read.is_ok() && is_same && is_of_one_script(&unicode);
    Some(if is_plain { Letters::Shown(unicode) } else { Letters::Hidden })
}

fn is_of_one_script(name: &str) -> bool {
    let mut of_name = None;
    name.split('.').filter(|label| !label.is_ascii()).all(|label| {
        let letters = || label.chars().filter(|character| !matches!(character, '0'..='9' | '-'));
        let is_own = letters().any(|character| !character.is_ascii() && !LIKE_LATIN.contains(character));
        is_own
            && letters().all(|character| {
                let script = script(character);
                script.is_some() && is_showable(character) && *of_name.get_or_insert(script) == script
            })
    })
}

/// `None` for every letter that is not of a script above, or is not told apart from another at a glance.
fn script(character: char) -> Option<Script> {
    match character {
        'a'..='z' => Some(Script::Latin),
        // Not the multiplication and division signs, dotless i, kra, n with an apostrophe, long s, and marks below.
        '\u{df}'..='\u{f6}' | '\u{f8}'..='\u{ff}' => Some(Script::Latin),
        'ā' | 'ă' | 'ć' | 'ĉ' | 'č' | 'ď' | 'ē' | 'ĕ' | 'ě' | 'ĝ' | 'ğ' | 'ĥ' | 'ĩ' | 'ī' | 'ĵ' | 'ĺ' | 'ľ' | 'ń'
        | 'ň' | 'ō' | 'ŏ' | 'ő' | 'œ' | 'ŕ' | 'ř' | 'ś' | 'ŝ' | 'š' | 'ť' | 'ũ' | 'ū' | 'ŭ' | 'ů' | 'ű' | 'ŵ' | 'ŷ'
        | 'ź' | 'ż' | 'ž' => Some(Script::Latin),
        '\u{3ac}'..='\u{3ce}' => Some(Script::Greek),
        '\u{430}'..='\u{45f}' => Some(Script::Cyrillic),
        '\u{3041}'..='\u{3096}' => Some(Script::Hiragana),
        '\u{30a1}'..='\u{30fa}' | '\u{30fc}' => Some(Script::Katakana),
        '\u{ac00}'..='\u{d7a3}' => Some(Script::Hangul),
        '\u{4e00}'..='\u{9fff}' => Some(Script::Han),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<Letters> {
        letters(&name.parse().unwrap())
    }

    #[test]
    fn names_of_one_script_are_shown_in_their_letters() {
        for name in ["bücher.example", "παράδειγμα.example", "пример.com", "例子.example", "ひらがな.jp", "한국.kr"]
        {
            assert_eq!(of(name), Some(Letters::Shown(name.to_owned())), "{name}");
        }
        assert_eq!(of("registry.npmjs.org"), None);
    }

    #[test]
    fn names_that_could_pass_for_others_are_not() {
        for name in [
            // Wholly Cyrillic "apple" and "paypal", Greek "οτο".
            "аррӏе.com",
            "раураӏ.com",
            "οικο.com",
            // One Cyrillic letter among Latin ones, and the other way round.
            "аpple.com",
            "gооgle.com",
            "приmер.com",
            // Labels of two scripts.
            "пример.例子",
            // Marks below, dotless i, alpha of phonetics.
            "ạpple.com",
            "gıthub.com",
            "ɑpple.com",
            // From right to left.
            "דוגמה.com",
            "مثال.com",
            // Kana that looks like a slash.
            "ノノ.例子.com",
        ] {
            assert_eq!(of(name), Some(Letters::Hidden), "{name}");
        }
    }
}

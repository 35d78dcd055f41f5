//! Who said what: keyed hashes (HMAC-SHA256, RFC 2104) of what is sent and of what comes back. Runs as the person who is
//! asked; both sides of the comparison may be an attacker's choice, so that all comparing takes the same time.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What a signature begins with; another one would be another way to sign.
const VERSION: &str = "v1=";

/// What the person and their bridge both know. Never shown.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Bytes of a secret at the least: as many as the hash has.
    pub const SHORTEST: usize = 32;

    pub fn new(bytes: impl Into<Vec<u8>>) -> Secret {
        Secret(bytes.into())
    }

    /// For this process alone.
    pub fn random() -> Result<Secret, getrandom::Error> {
        let mut bytes = vec![0; Secret::SHORTEST];
        getrandom::fill(&mut bytes)?;
        Ok(Secret(bytes))
    }

    /// `v1=` and hexadecimal digits, of the parts with a dot between them.
    pub fn sign(&self, parts: &[&[u8]]) -> String {
        format!("{VERSION}{}", self.tag(parts))
    }

    /// Hexadecimal digits of the hash alone.
    pub fn tag(&self, parts: &[&[u8]]) -> String {
        match self.hash(parts) {
            Some(mac) => hexadecimal(&mac.finalize().into_bytes()),
            None => String::new(),
        }
    }

    /// Whether a signature is that of the parts.
    pub fn verifies(&self, parts: &[&[u8]], signature: &str) -> bool {
        signature.strip_prefix(VERSION).is_some_and(|tag| self.is_tag(parts, tag))
    }

    pub fn is_tag(&self, parts: &[&[u8]], tag: &str) -> bool {
        let Some(bytes) = from_hexadecimal(tag) else { return false };
        self.hash(parts).is_some_and(|mac| mac.verify_slice(&bytes).is_ok())
    }

    fn hash(&self, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        // Takes a key of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                mac.update(b".");
            }
            mac.update(part);
        }
        Some(mac)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of lower-case digits only: each value has one spelling.
fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let is_plain = text.len().is_multiple_of(2) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    is_plain.then(|| text.as_bytes().chunks(2).map(pair).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_hmac_sha256_as_other_programs_make_them() {
        // RFC 4231, test case 2, with its text in two parts.
        let secret = Secret::new("Jefe");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(secret.tag(&[b"what do ya want for nothing?"]), expected);
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac Jefe
        let signed = secret.sign(&[b"1700000000", b"{\"a\":1}"]);
        assert!(secret.verifies(&[b"1700000000.{\"a\":1}"], &signed), "{signed}");
    }

    #[test]
    fn nothing_but_the_very_signature_is_one() {
        let secret = Secret::new("0123456789abcdef0123456789abcdef");
        let parts: &[&[u8]] = &[b"1700000000", b"body"];
        let signed = secret.sign(parts);
        assert!(secret.verifies(parts, &signed));
        let flipped = signed.replace('a', "b");
        for wrong in
            ["", "v1=", &signed[3..], &signed[..signed.len() - 2], &signed.to_uppercase(), &format!("{signed}00")]
        {
            assert!(!secret.verifies(parts, wrong), "{wrong}");
        }
        assert!(flipped == signed || !secret.verifies(parts, &flipped));
        assert!(!secret.verifies(&[b"1700000001", b"body"], &signed));
        assert!(!Secret::new("another").verifies(parts, &signed));
        assert_eq!(format!("{secret:?}"), "Secret(***)");
    }
}

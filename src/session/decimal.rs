//! A number as a C string without an allocation: names of threads and descriptors below `/proc`.

use std::ffi::CStr;

/// Room for the ten digits of an `i32` and the NUL.
#[derive(Default)]
pub struct Decimal {
    text: [u8; 12],
}

impl Decimal {
    /// `0` for anything negative, which names no thread and no descriptor of ours.
    pub fn of(&mut self, number: i32) -> &CStr {
        let mut rest = number.max(0);
        let mut at = self.text.len() - 1;
        self.text[at] = 0;
        loop {
            at -= 1;
            self.text[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 || at == 0 {
                break;
            }
        }
        CStr::from_bytes_with_nul(&self.text[at..]).unwrap_or(c"0")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_as_decimal() {
        let mut text = Decimal::default();
        for number in [0, 7, 42, i32::MAX] {
            assert_eq!(text.of(number).to_str(), Ok(number.to_string().as_str()));
        }
    }
}

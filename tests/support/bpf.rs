//! An interpreter of classic BPF as seccomp(2) has it: the instructions that `seccomp_check_filter` (kernel/seccomp.c)
//! lets through, on a `struct seccomp_data`. Written from bpf(4) and linux/filter.h, apart from the compiler under test.

use seccompiler::sock_filter;

/// `struct seccomp_data`.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    pub number: u32,
    pub architecture: u32,
    pub instruction_pointer: u64,
    pub arguments: [u64; 6],
}

impl Data {
    /// The little-endian word at a byte offset, as on both architectures of the project.
    fn word(&self, offset: u32) -> Option<u32> {
        let half = |value: u64, high: bool| if high { (value >> 32) as u32 } else { value as u32 };
        match offset {
            0 => Some(self.number),
            4 => Some(self.architecture),
            8 | 12 => Some(half(self.instruction_pointer, offset == 12)),
            16..64 if offset.is_multiple_of(4) => {
                let argument = self.arguments[(offset as usize - 16) / 8];
                Some(half(argument, offset % 8 == 4))
            }
            _ => None,
        }
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The word that the program returned.
    pub value: u32,
    /// Whether it looked at anything but number and architecture: the kernel's bitmap of calls that are always allowed
    /// only takes numbers where no run does (`seccomp_is_const_allow`).
    pub looked_at_arguments: bool,
    pub instructions: usize,
}

/// Why a program is not one that the kernel would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Ran past its end, at this instruction.
    End(usize),
    Unknown(u16),
    Offset(u32),
    Scratch(u32),
    DivisionByZero,
}

/// Runs a program on a call.
pub fn run(program: &[sock_filter], data: &Data) -> Result<Outcome, Fault> {
    let (mut a, mut x) = (0u32, 0u32);
    let mut scratch = [0u32; 16];
    let (mut at, mut instructions, mut looked_at_arguments) = (0usize, 0usize, false);
    loop {
        let instruction = program.get(at).ok_or(Fault::End(at))?;
        let k = instruction.k;
        at += 1;
        instructions += 1;
        match instruction.code {
            0x20 => {
                a = data.word(k).ok_or(Fault::Offset(k))?;
                looked_at_arguments |= k > 4;
            }
            0x00 => a = k,
            0x01 => x = k,
            0x80 => a = 64,
            0x81 => x = 64,
            0x60 => a = *scratch.get(k as usize).ok_or(Fault::Scratch(k))?,
            0x61 => x = *scratch.get(k as usize).ok_or(Fault::Scratch(k))?,
            0x02 => *scratch.get_mut(k as usize).ok_or(Fault::Scratch(k))? = a,
            0x03 => *scratch.get_mut(k as usize).ok_or(Fault::Scratch(k))? = x,
            0x07 => x = a,
            0x87 => a = x,
            0x06 => return Ok(Outcome { value: k, looked_at_arguments, instructions }),
            0x16 => return Ok(Outcome { value: a, looked_at_arguments, instructions }),
            0x05 => at += k as usize,
            0x84 => a = a.wrapping_neg(),
            code if code & 0x07 == 0x04 => a = calculate(code, a, if code & 0x08 == 0 { k } else { x })?,
            code if code & 0x07 == 0x05 => {
                let holds = compare(code, a, if code & 0x08 == 0 { k } else { x })?;
                at += usize::from(if holds { instruction.jt } else { instruction.jf });
            }
            code => return Err(Fault::Unknown(code)),
        }
    }
}

fn calculate(code: u16, a: u32, operand: u32) -> Result<u32, Fault> {
    Ok(match code & !0x08 {
        0x04 => a.wrapping_add(operand),
        0x14 => a.wrapping_sub(operand),
        0x24 => a.wrapping_mul(operand),
        0x34 => a.checked_div(operand).ok_or(Fault::DivisionByZero)?,
        0x44 => a | operand,
        0x54 => a & operand,
        0x64 => a.checked_shl(operand).unwrap_or(0),
        0x74 => a.checked_shr(operand).unwrap_or(0),
        0xa4 => a ^ operand,
        _ => return Err(Fault::Unknown(code)),
    })
}

fn compare(code: u16, a: u32, operand: u32) -> Result<bool, Fault> {
    Ok(match code & !0x08 {
        0x15 => a == operand,
        0x25 => a > operand,
        0x35 => a >= operand,
        0x45 => a & operand != 0,
        _ => return Err(Fault::Unknown(code)),
    })
}

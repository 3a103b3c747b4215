//! The id of a user request for people, and the directory that goes with it.

use jiff::civil::DateTime;
use uuid::Uuid;

use crate::protocol::ids::Urid;

/// The id of a request begun at this local time: `YYYYMMDD-HH-MM-xxxxxxxx`. Its last part is the
/// first 8 hex digits of `random`; whoever finds the task directory taken draws again.
pub fn urid(local: DateTime, random: Uuid) -> Urid {
    let (random, ..) = random.as_fields();
    Urid::new(format!(
        "{:04}{:02}{:02}-{:02}-{:02}-{random:08x}",
        local.year(),
        local.month(),
        local.day(),
        local.hour(),
        local.minute(),
    ))
}

/// Reads an id that comes from a client, a model or a file name; it becomes part of a path, so
/// nothing but the exact form is taken.
pub fn parse_urid(text: &str) -> Option<Urid> {
    const FORM: &[u8] = b"dddddddd-dd-dd-xxxxxxxx";
    let fits = text.len() == FORM.len()
        && text.bytes().zip(FORM).all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            b'x' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            exact => byte == *exact,
        });
    fits.then(|| Urid::new(text))
}

/// The directory of a request for what its context can't hold, relative to the first root.
pub fn task_directory(urid: &Urid) -> String {
    format!(".roo/tasks/{urid}")
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_is_local_time_and_eight_random_digits() {
        let random = Uuid::from_u128(0x0a1b_2c3d_0000_4000_8000_0000_0000_0000);
        let id = urid(date(2025, 3, 7).at(9, 5, 59, 0), random);
        assert_eq!(id.as_str(), "20250307-09-05-0a1b2c3d");
        assert_eq!(parse_urid(id.as_str()), Some(id.clone()));
        assert_eq!(task_directory(&id), ".roo/tasks/20250307-09-05-0a1b2c3d");
    }

    #[test]
    fn nothing_else_is_an_id() {
        for text in [
            "",
            "20250307-09-05-0A1B2C3D",
            "20250307-09-05-0a1b2c3",
            "20250307-09-05-0a1b2c3d/",
            "../50307-09-05-0a1b2c3d",
            "20250307_09-05-0a1b2c3d",
            "2025030７-09-05-0a1b2c",
        ] {
            assert_eq!(parse_urid(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_drawn_is_an_id(random: u128, year in 1i16..=9999, minute in 0i8..60) {
            let id = urid(date(year, 12, 31).at(23, minute, 0, 0), Uuid::from_u128(random));
            prop_assert_eq!(parse_urid(id.as_str()), Some(id.clone()));
        }
    }
}

//! The id of a user request for people, and the directory that goes with it.

use jiff::civil::DateTime;
use uuid::Uuid;

use roo_protocol::ids::Urid;

/// The id of a request begun at this local time: `YYYYMMDD-HH-MM-xxxxxxxx`. Its last part is the
/// first 8 hex digits of `random`.
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

/// Returns whether a text has the form of a request's id: `^\d{8}-\d{2}-\d{2}-[0-9a-f]{8}$`, ASCII alone.
pub fn is_urid(text: &str) -> bool {
    const FORM: &[u8] = b"dddddddd-dd-dd-xxxxxxxx";
    text.len() == FORM.len()
        && text.bytes().zip(FORM).all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            b'x' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            _ => byte == *form,
        })
}

/// The directory of a request for what its context can't hold, relative to the first root.
pub fn task_directory(urid: &Urid) -> String {
    format!(".roo/tasks/{urid}")
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn an_id_is_local_time_and_eight_random_digits() {
        let random = Uuid::from_u128(0x0a1b_2c3d_0000_4000_8000_0000_0000_0000);
        let id = urid(date(2025, 3, 7).at(9, 5, 59, 0), random);
        assert_eq!(id.as_str(), "20250307-09-05-0a1b2c3d");
        assert_eq!(task_directory(&id), ".roo/tasks/20250307-09-05-0a1b2c3d");
    }

    #[test]
    fn the_form_of_an_id_is_exact() {
        assert!(is_urid("20250307-09-05-0a1b2c3d"));
        for text in [
            "",
            "20250307-09-05-0A1B2C3D",
            "20250307-09-05-0a1b2c3",
            "20250307-09-05-0a1b2c3d ",
            "20250307-0905--0a1b2c3d",
            "2025030٣-09-05-0a1b2c3",
            "20250307/09-05-0a1b2c3d",
            "g0250307-09-05-0a1b2c3d",
        ] {
            assert!(!is_urid(text), "{text}");
        }
    }
}

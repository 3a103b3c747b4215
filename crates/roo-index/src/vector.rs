//! Vectors of texts, a byte for each dimension: a quarter of the size of floats, and as good for ranking.

/// A direction: its length says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vector(Vec<u8>);

impl Vector {
    /// The direction of these numbers; none where they have none.
    pub(crate) fn new(numbers: &[f32]) -> Option<Self> {
        let largest = numbers.iter().fold(0_f32, |largest, number| largest.max(number.abs()));
        if numbers.is_empty() || !largest.is_finite() || largest == 0.0 || numbers.iter().any(|n| n.is_nan())
        {
            return None;
        }
        // Between -127 and 127.
        let byte = |number: &f32| ((number / largest * 127.0).round() as i8).cast_unsigned();
        Some(Self(numbers.iter().map(byte).collect()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The cosine of the angle to another vector; -1 to one of another model.
    pub(crate) fn similarity_to_bytes(&self, other: &[u8]) -> f32 {
        if other.len() != self.0.len() {
            return -1.0;
        }
        let (mut product, mut own, mut others) = (0_i32, 0_i32, 0_i32);
        for (&one, &other) in self.0.iter().zip(other) {
            let (one, other) = (i32::from(one.cast_signed()), i32::from(other.cast_signed()));
            product += one * other;
            own += one * one;
            others += other * other;
        }
        product as f32 / ((own as f32) * (others as f32)).sqrt().max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_points_the_same_way_is_near_whatever_its_length() {
        let one = Vector::new(&[1.0, 2.0, -3.0]).unwrap();
        let near = |numbers: &[f32]| one.similarity_to_bytes(Vector::new(numbers).unwrap().as_bytes());
        assert!(near(&[2.0, 4.0, -6.0]) > 0.999 && near(&[-1.0, -2.0, 3.0]) < -0.999);
        assert!(near(&[2.0, -1.0, 0.0]).abs() < 0.02);
        assert_eq!(near(&[1.0, 2.0]), -1.0, "of another model");
        for nothing in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY]] {
            assert_eq!(Vector::new(nothing), None);
        }
    }
}

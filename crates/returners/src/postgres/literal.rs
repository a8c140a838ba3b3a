//! Parameters that are sent as text and take the type of their column.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

/// A value in PostgreSQL's text format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal(pub String);

impl Literal {
    /// The parameters of a statement.
    pub fn all(values: &[Literal]) -> Vec<&(dyn ToSql + Sync)> {
        values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
    }
}

impl ToSql for Literal {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        // The server converts the text to the type of the column, so one statement fits tables whose columns differ.
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

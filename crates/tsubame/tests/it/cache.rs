//! Responses that are stored, and come back.

mod same_as_apache;

//! The building blocks of [`inbox`](super::inbox), [`readiness`](super::readiness) and [`wake_state`](super::wake_state); a test
//! replaces them with the model checker's.

pub(super) use crate::block_on::Raise;
pub(super) use crate::block_on::wakeup::Wakeup;
pub(super) use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
pub(super) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

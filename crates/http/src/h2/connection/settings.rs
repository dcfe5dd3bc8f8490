//! Settings (RFC 9113 section 6.5): ours, and the client's.

use super::{Connection, Event};
use crate::h2::fault::{Fault, UNRESERVED, wrong_size};
use crate::h2::frame::{self, FrameHeader, PAYLOAD, Reason, flag, kind, setting};
use crate::h2::window;

impl<S: Default> Connection<S> {
    /// Sends our settings, which are the first frame (RFC 9113 section 3.4).
    pub(super) fn greet(&mut self) {
        let mut payload = Vec::with_capacity(24);
        let mut put = |name: u16, value: u32| {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        };
        put(setting::MAX_CONCURRENT_STREAMS, self.config.streams);
        put(setting::INITIAL_WINDOW_SIZE, self.config.window);
        put(setting::MAX_HEADER_LIST_SIZE, self.config.header_list);
        if self.config.tunnels {
            put(setting::ENABLE_CONNECT_PROTOCOL, 1);
        }
        frame::put(&mut self.out, kind::SETTINGS, 0, 0, &payload);
        let more = self.config.connection_window.saturating_sub(window::INITIAL);
        if more > 0 {
            frame::put(&mut self.out, kind::WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        }
    }

    pub(super) fn settings<'f>(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Event<'f>, Fault> {
        if header.has(flag::ACK) {
            self.is_known = true;
            return if payload.is_empty() { Ok(Event::Nothing) } else { wrong_size("an acknowledgement with content") };
        }
        self.is_greeted = true;
        self.apply(payload)?;
        frame::put(&mut self.out, kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(Event::Room(None))
    }

    /// Applies the client's settings.
    pub(super) fn apply(&mut self, payload: &[u8]) -> Result<(), Fault> {
        if !payload.len().is_multiple_of(6) {
            return wrong_size("SETTINGS of the wrong size");
        }
        for entry in payload.chunks_exact(6) {
            let (name, value) = (u16::from_be_bytes([entry[0], entry[1]]), &entry[2..]);
            let value = u32::from_be_bytes([value[0], value[1], value[2], value[3]]);
            let invalid = |what| Err(Fault::Connection(Reason::PROTOCOL_ERROR, what));
            match name {
                setting::HEADER_TABLE_SIZE => self.encoder.limit(value),
                setting::ENABLE_PUSH if value > 1 => return invalid("SETTINGS_ENABLE_PUSH is neither 0 nor 1"),
                setting::MAX_FRAME_SIZE if !(PAYLOAD..1 << 24).contains(&(value as usize)) => {
                    return invalid("SETTINGS_MAX_FRAME_SIZE is out of range");
                }
                setting::INITIAL_WINDOW_SIZE => {
                    let too_large = Fault::Connection(Reason::FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE");
                    if value > UNRESERVED {
                        return Err(too_large);
                    }
                    let by = i64::from(value) - i64::from(std::mem::replace(&mut self.initial_send, value));
                    if self.streams.all().any(|stream| stream.send.change(by).is_err()) {
                        return Err(too_large);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

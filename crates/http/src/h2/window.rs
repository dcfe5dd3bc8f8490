//! Flow-control windows (RFC 9113 section 5.2): how much one side may still send.

use super::frame::Reason;

/// The largest window, in bytes (RFC 9113 section 6.9.1).
const LARGEST: i64 = (1 << 31) - 1;

/// The initial size of every window, in bytes (RFC 9113 section 6.9.2).
pub(super) const INITIAL: u32 = 65_535;

/// How much we may send. A client that makes its initial window smaller can make this negative.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendWindow(i64);

impl SendWindow {
    pub fn new(size: u32) -> SendWindow {
        SendWindow(i64::from(size))
    }

    /// How many bytes may be sent now.
    pub fn room(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    pub fn take(&mut self, sent: usize) {
        self.0 -= sent as i64;
    }

    /// Opens the window further, or closes it. `Err`: it would be larger than allowed.
    pub fn change(&mut self, by: i64) -> Result<(), Reason> {
        self.0 += by;
        if self.0 > LARGEST { Err(Reason::FLOW_CONTROL_ERROR) } else { Ok(()) }
    }
}

/// How much the client may send, and what of it was consumed and not given back yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceiveWindow {
    size: u32,
    left: u32,
    consumed: u32,
}

impl ReceiveWindow {
    /// `left`: how much the client may send before it knows of the size.
    pub fn new(size: u32, left: u32) -> ReceiveWindow {
        ReceiveWindow { size, left, consumed: 0 }
    }

    /// Counts received bytes. `Err`: the client may not have sent so many.
    pub fn receive(&mut self, bytes: usize) -> Result<(), Reason> {
        let bytes = u32::try_from(bytes).map_err(|_| Reason::FLOW_CONTROL_ERROR)?;
        self.left = self.left.checked_sub(bytes).ok_or(Reason::FLOW_CONTROL_ERROR)?;
        Ok(())
    }

    /// Gives consumed bytes back. Returns the increment for a WINDOW_UPDATE, once it is worth a frame.
    pub fn consume(&mut self, bytes: u32) -> Option<u32> {
        self.consumed += bytes;
        if self.consumed == 0 || self.consumed < self.size / 2 {
            return None;
        }
        self.left += self.consumed;
        Some(std::mem::take(&mut self.consumed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_given_back_by_halves() {
        let mut window = ReceiveWindow::new(100, 100);
        assert_eq!(window.receive(101), Err(Reason::FLOW_CONTROL_ERROR));
        assert_eq!(window.receive(100), Ok(()));
        assert_eq!((window.consume(49), window.consume(1), window.consume(1)), (None, Some(50), None));
        assert_eq!(window.receive(51), Err(Reason::FLOW_CONTROL_ERROR));
        assert_eq!(window.receive(50), Ok(()));
        assert_eq!(ReceiveWindow::new(0, 0).consume(0), None);
    }

    #[test]
    fn a_send_window_may_be_negative_but_not_too_large() {
        let mut window = SendWindow::new(10);
        window.take(10);
        assert_eq!((window.change(-5), window.room()), (Ok(()), 0));
        assert_eq!((window.change(6), window.room()), (Ok(()), 1));
        assert_eq!(window.change(LARGEST), Err(Reason::FLOW_CONTROL_ERROR));
    }
}

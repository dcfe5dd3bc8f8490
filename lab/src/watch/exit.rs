//! The end of `top`, also when the thread that draws cannot go on: a terminal that takes no output (Ctrl-S, a stuck
//! connection) holds it up in a write, and a library that reads a terminal which has gone never returns.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::LeaveAlternateScreen;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};

use crate::machine::error::{Context as _, Result};
use crate::machine::interrupt;

/// How long the thread that draws has to end by itself after a signal.
const LEAVE: Duration = Duration::from_millis(500);

/// How often to look for signals.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A terminal, and how it was before anything was drawn.
struct Screen {
    terminal: OwnedFd,
    modes: Termios,
    /// Standard output in a description of its own, so that writing to it never waits.
    output: File,
}

impl Screen {
    fn find() -> std::io::Result<Self> {
        let terminal = match isatty(std::io::stdin()) {
            true => std::io::stdin().as_fd().try_clone_to_owned()?,
            false => File::open("/dev/tty")?.into(),
        };
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let output = open("/proc/self/fd/1", flags, Mode::empty())?.into();
        Ok(Self { modes: tcgetattr(&terminal)?, terminal, output })
    }

    /// Whether it has gone. Nothing is asked for: that is reported all the same. Takes [`LOOK`] otherwise.
    fn has_gone(&self) -> bool {
        let mut looks = [PollFd::new(&self.terminal, PollFlags::empty())];
        poll(&mut looks, Some(&LOOK)).is_ok_and(|_| looks[0].revents().contains(PollFlags::HUP))
    }

    /// Makes it what it was. The modes do not depend on its output, so they come first; if it takes no output, the picture
    /// stays.
    fn restore(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.modes);
        let _ = execute!(self.output, LeaveAlternateScreen, Show);
    }
}

/// From now on this program ends when its terminal goes, and a moment after a signal that asks for the end, with the
/// terminal as it is now, whatever the thread that draws is doing. There is nobody left then who could see a message.
pub(crate) fn end_with_terminal() -> Result<()> {
    let mut screen = Screen::find().context(|| "open the terminal".to_owned())?;
    let watching = move || {
        let mut asked: Option<Instant> = None;
        loop {
            let has_gone = screen.has_gone();
            if interrupt::is_asked() {
                asked.get_or_insert_with(Instant::now);
            }
            if has_gone || asked.is_some_and(|since| since.elapsed() > LEAVE) {
                screen.restore();
                std::process::exit(1);
            }
        }
    };
    std::thread::Builder::new().spawn(watching).map(drop).context(|| "start a thread".to_owned())
}

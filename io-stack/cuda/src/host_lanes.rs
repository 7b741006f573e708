//! `HostLanes`: the lanes of a warp on host threads, and the text that units are compiled with for several.
//!
//! A warp of 32 lanes runs on one thread, in lockstep: each lane is a fiber, and the fibers alternate at every
//! collective (`lanes.h`). Lanes of a warp then disagree as on a GPU, which one lane cannot.

use std::borrow::Cow;

const BEGIN: &str = include_str!("lanes.h");
const END: &str = include_str!("lanes_end.h");

/// The number of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostLanes {
    /// A warp is one lane: nothing is slower for being a warp.
    #[default]
    One,
    /// As on a GPU.
    ThirtyTwo,
}

impl HostLanes {
    /// The number.
    pub fn count(self) -> u32 {
        match self {
            Self::One => 1,
            Self::ThirtyTwo => 32,
        }
    }

    /// A unit that is compiled alone, or with which others are linked.
    pub fn unit(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::One => Cow::Borrowed(text),
            Self::ThirtyTwo => Cow::Owned(format!("{BEGIN}{text}{END}")),
        }
    }

    /// A unit that is linked with another one ([`unit`](Self::unit)), which has the lanes' functions.
    pub fn linked_unit(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::One => Cow::Borrowed(text),
            Self::ThirtyTwo => Cow::Owned(format!("#define GRAMPUS_HOST_LANES 32\n{text}")),
        }
    }

    /// All that machine code depends on beside its unit's text.
    pub fn environment(self) -> &'static str {
        match self {
            Self::One => "",
            Self::ThirtyTwo => concat!("32 lanes ", include_str!("lanes.h"), include_str!("lanes_end.h")),
        }
    }
}

use std::fmt;

use super::reason::NoRoute;

/// The way bytes take to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Route {
    /// cuFile, straight from the drive into device memory.
    Direct,
    /// A read past the page cache into pinned host memory, then a copy by the device.
    Bounce,
    /// A read through the page cache into pinned host memory, then a copy by the device.
    Cached,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Bounce => "bounce",
            Self::Cached => "cached",
        })
    }
}

/// Whether a route may be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Switch {
    /// Never.
    Off,
    /// This one and no other, as [`CarrierBuilder::route`](super::CarrierBuilder::route) sets it, and an error where it
    /// cannot be had.
    On,
    /// Where it can be had and no better one can.
    #[default]
    Auto,
}

/// Which route the bytes of one file take to one device, and why not the others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// The route taken. What the page cache holds already takes `cached` all the same, where that is allowed.
    pub chosen: Route,
    /// Whether the route `direct` was forced and cuFile serves this file through its compatibility mode only, by way of
    /// host memory.
    pub compat: bool,
    /// Every other route.
    pub rejected: Vec<Rejected>,
}

impl Decision {
    /// Why a route is not taken; `None` where it is.
    pub fn why_not(&self, route: Route) -> Option<&NoRoute> {
        self.rejected.iter().find(|rejected| rejected.route == route).map(|rejected| &rejected.reason)
    }
}

/// The route taken, then for each other why not and what would mend that, a line each.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compat = if self.compat { " (compat)" } else { "" };
        write!(f, "{}{compat}", self.chosen)?;
        for rejected in &self.rejected {
            write!(f, "\nnot {}: {}; {}", rejected.route, rejected.reason, rejected.fix())?;
        }
        Ok(())
    }
}

/// A route that is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejected {
    /// The route.
    pub route: Route,
    /// Why.
    pub reason: NoRoute,
}

impl Rejected {
    /// What would make the route one that can be taken, in a few words.
    pub fn fix(&self) -> String {
        self.reason.fix()
    }
}

/// What the builder was told of each route.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switches {
    pub(super) direct: Switch,
    pub(super) bounce: Switch,
    pub(super) cached: Switch,
}

impl Switches {
    /// From the best to the worst.
    const ORDER: [Route; 3] = [Route::Direct, Route::Bounce, Route::Cached];

    pub(super) fn of(&self, route: Route) -> Switch {
        match route {
            Route::Direct => self.direct,
            Route::Bounce => self.bounce,
            Route::Cached => self.cached,
        }
    }

    /// The route that alone may be taken.
    pub(super) fn forced(&self) -> Option<Route> {
        Self::ORDER.into_iter().find(|&route| self.of(route) == Switch::On)
    }

    pub(super) fn forced_ones(&self) -> usize {
        Self::ORDER.into_iter().filter(|&route| self.of(route) == Switch::On).count()
    }

    pub(super) fn allows(&self, route: Route) -> bool {
        match self.forced() {
            Some(forced) => forced == route,
            None => self.of(route) != Switch::Off,
        }
    }

    /// Chooses the first route that is allowed and for which `can` has nothing to say against; asks of each allowed one.
    ///
    /// # Errors
    /// Where none can be had: the one forced, or the last one tried, with its reason.
    pub(super) fn decide(&self, mut can: impl FnMut(Route) -> Result<(), NoRoute>) -> Result<Decision, Rejected> {
        let mut chosen = None;
        let mut rejected = Vec::with_capacity(2);
        for route in Self::ORDER {
            let reason = match (self.allows(route), self.forced(), chosen) {
                (false, Some(forced), _) => NoRoute::OtherForced(forced),
                (false, None, _) => NoRoute::TurnedOff,
                (true, _, Some(better)) => match can(route) {
                    Ok(()) => NoRoute::Outranked(better),
                    Err(reason) => reason,
                },
                (true, _, None) => match can(route) {
                    Ok(()) => {
                        chosen = Some(route);
                        continue;
                    }
                    Err(reason) => reason,
                },
            };
            rejected.push(Rejected { route, reason });
        }
        match chosen {
            Some(chosen) => Ok(Decision { chosen, compat: false, rejected }),
            None => {
                let allowed = rejected.into_iter().rfind(|rejected| self.allows(rejected.route));
                Err(allowed.unwrap_or(Rejected { route: Route::Cached, reason: NoRoute::TurnedOff }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Switch; 3] = [Switch::Off, Switch::On, Switch::Auto];

    #[test]
    fn the_first_allowed_route_that_can_be_had_is_chosen_and_every_other_has_a_reason() {
        for (direct, bounce, cached) in (0..27).map(|i| (ALL[i / 9], ALL[i / 3 % 3], ALL[i % 3])) {
            let switches = Switches { direct, bounce, cached };
            if switches.forced_ones() > 1 {
                continue;
            }
            for possible in 0..8_u32 {
                let can = |route: Route| match possible >> route as u32 & 1 {
                    1 => Ok(()),
                    _ => Err(NoRoute::HostDevice),
                };
                let expected = Switches::ORDER.into_iter().find(|&route| switches.allows(route) && can(route).is_ok());
                match switches.decide(can) {
                    Ok(decision) => {
                        assert_eq!(Some(decision.chosen), expected, "{switches:?} {possible}");
                        let mut routes: Vec<Route> = decision.rejected.iter().map(|rejected| rejected.route).collect();
                        routes.push(decision.chosen);
                        assert!(Switches::ORDER.iter().all(|route| routes.contains(route)) && routes.len() == 3);
                    }
                    Err(rejected) => {
                        assert_eq!(expected, None, "{switches:?} {possible}");
                        if let Some(forced) = switches.forced() {
                            assert_eq!((rejected.route, rejected.reason), (forced, NoRoute::HostDevice));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_forced_route_keeps_all_others_out() {
        let switches = Switches { cached: Switch::On, ..Switches::default() };
        let decision = switches.decide(|_| Ok(())).unwrap();
        assert_eq!(decision.chosen, Route::Cached);
        assert_eq!(decision.why_not(Route::Bounce), Some(&NoRoute::OtherForced(Route::Cached)));
    }
}

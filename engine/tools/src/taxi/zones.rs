//! [`Zone`]: a neighbourhood of pickups and dropoffs, with its popularity and the census bureau's numbers for it.
//!
//! The names are New York's. Tract numbers and coordinates are made up.

/// A neighbourhood and its census areas.
pub(super) struct Zone {
    /// Neighbourhood code, e.g. "MN17".
    pub(super) code: &'static str,
    pub(super) name: &'static str,
    /// 1 Manhattan, 2 Bronx, 3 Brooklyn, 4 Queens, 5 Staten Island.
    pub(super) borough: u8,
    /// Public-use microdata area, e.g. "3807".
    pub(super) puma: &'static str,
    /// Pickups per mille of all.
    pub(super) weight: u32,
    /// The centre, millionths of a degree.
    pub(super) longitude: i32,
    pub(super) latitude: i32,
}

/// Names by [`Zone::borough`].
pub(super) const BOROUGHS: [&str; 6] = ["", "Manhattan", "Bronx", "Brooklyn", "Queens", "Staten Island"];

const fn zone(
    code: &'static str,
    name: &'static str,
    borough: u8,
    puma: &'static str,
    weight: u32,
    (longitude, latitude): (i32, i32),
) -> Zone {
    Zone {
        code,
        name,
        borough,
        puma,
        weight,
        longitude,
        latitude,
    }
}

/// The weights sum to 1000.
pub(super) const ZONES: [Zone; 34] = [
    zone(
        "MN17",
        "Midtown-Midtown South",
        1,
        "3807",
        190,
        (-73_984_000, 40_755_000),
    ),
    zone(
        "MN13",
        "Hudson Yards-Chelsea-Flatiron",
        1,
        "3807",
        110,
        (-73_998_000, 40_747_000),
    ),
    zone(
        "MN40",
        "Upper East Side-Carnegie Hill",
        1,
        "3805",
        80,
        (-73_961_000, 40_776_000),
    ),
    zone(
        "MN19",
        "Turtle Bay-East Midtown",
        1,
        "3808",
        70,
        (-73_968_000, 40_755_000),
    ),
    zone("MN23", "West Village", 1, "3810", 60, (-74_005_000, 40_734_000)),
    zone("MN12", "Upper West Side", 1, "3806", 60, (-73_977_000, 40_788_000)),
    zone("MN14", "Lincoln Square", 1, "3806", 50, (-73_983_000, 40_774_000)),
    zone(
        "MN31",
        "Lenox Hill-Roosevelt Island",
        1,
        "3805",
        48,
        (-73_957_000, 40_766_000),
    ),
    zone("MN20", "Murray Hill-Kips Bay", 1, "3808", 46, (-73_977_000, 40_744_000)),
    zone(
        "MN24",
        "SoHo-TriBeCa-Civic Center",
        1,
        "3810",
        45,
        (-74_003_000, 40_720_000),
    ),
    zone("MN15", "Clinton", 1, "3807", 40, (-73_992_000, 40_763_000)),
    zone("MN21", "Gramercy", 1, "3808", 35, (-73_984_000, 40_736_000)),
    zone("MN22", "East Village", 1, "3809", 33, (-73_983_000, 40_727_000)),
    zone(
        "MN25",
        "Battery Park City-Lower Manhattan",
        1,
        "3810",
        32,
        (-74_012_000, 40_708_000),
    ),
    zone("MN32", "Yorkville", 1, "3805", 22, (-73_949_000, 40_777_000)),
    zone("MN27", "Chinatown", 1, "3809", 12, (-73_996_000, 40_715_000)),
    zone("MN09", "Morningside Heights", 1, "3802", 7, (-73_962_000, 40_810_000)),
    zone("MN11", "Central Harlem South", 1, "3803", 6, (-73_951_000, 40_803_000)),
    zone("MN34", "East Harlem North", 1, "3804", 5, (-73_937_000, 40_801_000)),
    zone("QN98", "Airport", 4, "4105", 20, (-73_874_000, 40_773_000)),
    zone(
        "QN31",
        "Hunters Point-Sunnyside-West Maspeth",
        4,
        "4109",
        4,
        (-73_937_000, 40_744_000),
    ),
    zone("QN70", "Astoria", 4, "4101", 4, (-73_918_000, 40_764_000)),
    zone("QN29", "Elmhurst", 4, "4107", 1, (-73_882_000, 40_739_000)),
    zone("QN17", "Forest Hills", 4, "4108", 1, (-73_845_000, 40_720_000)),
    zone(
        "BK38",
        "DUMBO-Vinegar Hill-Downtown Brooklyn",
        3,
        "4004",
        4,
        (-73_985_000, 40_695_000),
    ),
    zone("BK73", "North Side-South Side", 3, "4001", 4, (-73_958_000, 40_715_000)),
    zone("BK37", "Park Slope-Gowanus", 3, "4005", 3, (-73_981_000, 40_672_000)),
    zone(
        "BK09",
        "Brooklyn Heights-Cobble Hill",
        3,
        "4004",
        2,
        (-73_995_000, 40_693_000),
    ),
    zone("BK68", "Fort Greene", 3, "4004", 2, (-73_975_000, 40_690_000)),
    zone("BX63", "West Concourse", 2, "3708", 1, (-73_924_000, 40_831_000)),
    zone(
        "BX39",
        "Mott Haven-Port Morris",
        2,
        "3710",
        1,
        (-73_921_000, 40_809_000),
    ),
    zone(
        "BX22",
        "North Riverdale-Fieldston-Riverdale",
        2,
        "3701",
        1,
        (-73_909_000, 40_899_000),
    ),
    zone(
        "SI36",
        "Old Town-Dongan Hills-South Beach",
        5,
        "3902",
        0,
        (-74_085_000, 40_590_000),
    ),
    zone(
        "SI22",
        "West New Brighton-New Brighton-St. George",
        5,
        "3903",
        1,
        (-74_084_000, 40_644_000),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_per_mille() {
        assert_eq!(ZONES.iter().map(|z| z.weight).sum::<u32>(), 1000);
        assert!(ZONES.iter().all(|z| !BOROUGHS[z.borough as usize].is_empty()));
    }
}

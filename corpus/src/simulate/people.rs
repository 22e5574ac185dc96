//! Artificial people and places.

/// Given names.
pub(super) const GIVEN: [&str; 80] = [
    "Ada", "Alan", "Alice", "Amara", "Amir", "Ana", "Andre", "Anika", "Arjun", "Astrid", "Bela",
    "Bruno", "Callum", "Camila", "Carmen", "Cedric", "Chen", "Clara", "Dalia", "Daniel", "Dara",
    "David", "Diego", "Elena", "Elias", "Emeka", "Emma", "Erik", "Esther", "Farah", "Felix",
    "Fiona", "Gabriel", "Grace", "Hana", "Hugo", "Ida", "Imani", "Ines", "Ivan", "Jakob", "James",
    "Jin", "Jonas", "Julia", "Kai", "Karin", "Kenji", "Lara", "Leo", "Lucia", "Magnus", "Mai",
    "Marco", "Maria", "Mateo", "Mina", "Nadia", "Nils", "Noor", "Olga", "Omar", "Oscar", "Paula",
    "Petra", "Priya", "Rafael", "Rosa", "Ruth", "Samuel", "Sara", "Sofia", "Tariq", "Tessa",
    "Thomas", "Uma", "Viktor", "Yara", "Yusuf", "Zoe",
];

/// Family names.
pub(super) const FAMILY: [&str; 100] = [
    "Abara", "Adler", "Aguilar", "Almeida", "Andersen", "Aoki", "Arden", "Bakker", "Barros",
    "Becker", "Bergman", "Bianchi", "Blum", "Borges", "Brandt", "Cabral", "Castillo", "Chandra",
    "Cheng", "Conti", "Costa", "Dahl", "Delgado", "Demir", "Dietrich", "Dubois", "Duarte",
    "Eklund", "Engel", "Farrow", "Ferrari", "Fischer", "Fontaine", "Forsberg", "Garnier", "Gomes",
    "Grant", "Haddad", "Hagen", "Hansen", "Haruna", "Hartley", "Holm", "Ibarra", "Iqbal", "Jansen",
    "Jimenez", "Kaplan", "Karlsson", "Keller", "Khalil", "Kimura", "Klein", "Kovac", "Kramer",
    "Lacroix", "Lang", "Larsen", "Lehmann", "Lindgren", "Lombardi", "Marsh", "Medina", "Mehta",
    "Meyer", "Moreau", "Moreno", "Nakamura", "Navarro", "Novak", "Okafor", "Olsen", "Ortega",
    "Osei", "Patel", "Pavlov", "Pereira", "Petrov", "Quist", "Ramos", "Reyes", "Ricci", "Rossi",
    "Salazar", "Santos", "Sato", "Schmitt", "Serrano", "Silva", "Sorensen", "Suzuki", "Tanaka",
    "Torres", "Vargas", "Vega", "Vogel", "Weber", "Winther", "Yamada", "Zimmer",
];

/// First parts of street names.
pub(super) const STREETS: [&str; 40] = [
    "Alder", "Ash", "Aspen", "Beacon", "Birch", "Bridge", "Canal", "Cedar", "Chapel", "Cherry",
    "Clover", "Copper", "Elm", "Fern", "Forest", "Garden", "Granite", "Harbor", "Hazel", "Heron",
    "Hill", "Juniper", "Lake", "Laurel", "Linden", "Maple", "Meadow", "Mill", "Oak", "Orchard",
    "Park", "Pine", "Quarry", "River", "Rowan", "Spruce", "Summit", "Willow", "Windmill", "Wren",
];

/// Second parts of street names.
pub(super) const WAYS: [&str; 10] = [
    "Street", "Avenue", "Lane", "Road", "Drive", "Court", "Way", "Terrace", "Place", "Crescent",
];

/// First parts of town names.
pub(super) const TOWNS: [&str; 30] = [
    "Amber", "Bay", "Black", "Bright", "Brook", "Clear", "Cold", "Deer", "Dun", "East", "Fair",
    "Fox", "Glen", "Gold", "Green", "Harrow", "High", "Iron", "Kings", "Long", "Marl", "Mill",
    "New", "North", "Red", "Silver", "Stone", "Thorn", "West", "White",
];

/// Second parts of town names.
pub(super) const ENDINGS: [&str; 15] = [
    "bury", "dale", "field", "ford", "haven", "holm", "leigh", "mere", "minster", "port", "ridge",
    "ton", "vale", "water", "wick",
];

/// Postal codes of states.
pub(super) const STATES: [&str; 50] = [
    "AL", "AK", "AZ", "AR", "CA", "CO", "CT", "DE", "FL", "GA", "HI", "ID", "IL", "IN", "IA", "KS",
    "KY", "LA", "ME", "MD", "MA", "MI", "MN", "MS", "MO", "MT", "NE", "NV", "NH", "NJ", "NM", "NY",
    "NC", "ND", "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VT", "VA", "WA", "WV",
    "WI", "WY",
];

/// What people order.
pub(super) const GOODS: [&str; 12] = [
    "coffee grinder",
    "desk lamp",
    "raincoat",
    "bookshelf",
    "pair of boots",
    "yoga mat",
    "toaster",
    "winter jacket",
    "keyboard",
    "garden chair",
    "travel bag",
    "rice cooker",
];

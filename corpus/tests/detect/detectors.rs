//! Each kind in its formats, what is none, and texts made to hurt.

use super::{found, spans};
use proptest::prelude::*;
use reticent_corpus::policy::{
    Country, DetectorOptions, Detectors, IDENTIFYING, NUMERIC, Policy, View,
};
use reticent_corpus::redaction::SecretList;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

fn all() -> Detectors {
    static ALL: OnceLock<Detectors> = OnceLock::new();
    ALL.get_or_init(every).clone()
}

fn every() -> Detectors {
    let kinds = IDENTIFYING.iter().chain(&NUMERIC);
    Detectors::new(&DetectorOptions {
        kinds: kinds.map(|k| (*k).to_owned()).collect(),
        ..DetectorOptions::default()
    })
    .unwrap()
}

/// The detectors of one kind, compiled once.
fn only(kind: &str) -> Arc<Detectors> {
    type Known = Mutex<HashMap<String, Arc<Detectors>>>;
    static KNOWN: OnceLock<Known> = OnceLock::new();
    let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap();
    let made = known.entry(kind.to_owned()).or_insert_with(|| {
        let options = DetectorOptions {
            kinds: vec![kind.to_owned()],
            ..DetectorOptions::default()
        };
        Arc::new(Detectors::new(&options).unwrap())
    });
    made.clone()
}

/// Numbers with a checksum are published test numbers or the registries' own examples.
#[test]
fn each_kind_is_found_whole_in_its_formats() {
    let cases: [(&str, &[&str]); 20] = [
        (
            "email",
            &[
                "ada@example.org",
                "o'hara.b+x@mail.example.co.uk",
                "émile@exemple.fr",
                "kontakt@bücher.example",
                "jose\u{301}@mu\u{308}nchen.example",
                "a@例え.テスト",
                "a@xn--r8jz45g.xn--zckzah",
            ],
        ),
        (
            "url",
            &[
                "https://example.org/a?b=c&d=é#f",
                "www.example.org",
                "mysql://root:S3cret9@localhost/db",
                "redis://:S3cret9@cache",
                "https://mary:p%20w9secret@example.org/x",
                "https://example.org/?next=%22a%22&pw=hunter2&n=2024+11+3",
            ],
        ),
        (
            "ip",
            &[
                "192.0.2.1",
                "2001:db8::1",
                "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
                "::ffff:192.0.2.33",
            ],
        ),
        ("mac", &["00:00:5E:00:53:01"]),
        (
            "iban",
            &[
                "GB82WEST12345698765432",
                "GB82 WEST 1234 5698 7654 32",
                "gb82west12345698765432",
                "NO9386011117947",
            ],
        ),
        (
            "card",
            &[
                "4111111111111111",
                "4111 1111 1111 1111",
                "3782 822463 10005",
                "5555-5555-5555-4444",
                "4111.1111.1111.1111",
                "4111\u{2011}1111\u{2011}1111\u{2011}1111",
            ],
        ),
        (
            "ssn",
            &[
                "078-05-1120",
                "078 05 1120",
                "987-65-4321",
                "078\u{2011}05\u{2011}1120",
                "０７８-０５-１１２０",
            ],
        ),
        (
            "phone",
            &[
                "+49 30 901820",
                "(555) 010-2345",
                "555.010.2345",
                "555-010-2345x12",
                "+46 (0)8 928 571 38",
                "0341 8387176",
                "+15550102345",
            ],
        ),
        (
            "reference",
            &[
                "1Z5R89390357567127",
                "RR473124829GB",
                "123-45678-9012",
                "#A1-2345",
                "AB12CD34EF",
            ],
        ),
        (
            "national-id",
            &[
                "AB 12 34 56 C",
                "12345678Z",
                "X1234567L",
                "RSSMRA85T10A562S",
                "2 55 08 14 168 025 38",
            ],
        ),
        ("postcode", &["SW1A 2AA", "ME 04401-1234"]),
        (
            "api-key",
            &[
                "AKIAIOSFODNN7EXAMPLE",
                "ghp_0123456789abcdefghijABCDEFGHIJ012345",
                "aZ3k9Qw7Lm2Xc8Vb5N4d",
                "sk_live_0123456789abcdef",
            ],
        ),
        (
            "date",
            &[
                "2024-02-29",
                "29.2.2024",
                "02/29/24",
                "March 3rd, 2020",
                "3 March 2020",
                "Monday, January 5",
                "1998",
                "last week",
                "the past year",
                "The Following Monday",
                "three days ago",
                "2024-02-29T12:30:00Z",
            ],
        ),
        (
            "time",
            &["12:30", "5 pm", "7:05 a.m.", "three o'clock", "two hours"],
        ),
        (
            "money",
            &["$5", "€1,200.50", "five dollars", "20 USD", "US$ 3 million"],
        ),
        ("percent", &["5%", "12.5 percent", "ten per cent"]),
        ("quantity", &["5 km", "twelve miles", "3,000 kg"]),
        ("ordinal", &["3rd", "first", "twenty-first"]),
        ("cardinal", &["42", "1,000,000", "two hundred and five"]),
        ("bank-routing", &["bank 021000021"]),
    ];
    for (kind, texts) in cases {
        for text in texts {
            for (before, after) in [
                ("", ""),
                ("so ", " it"),
                ("(", ")"),
                ("é: ", ", é"),
                ("\u{fffc} ", "."),
            ] {
                let whole = format!("{before}{text}{after}");
                let expected = text.strip_prefix("bank ").unwrap_or(text);
                let hits = found(only(kind).as_ref(), &whole);
                assert!(
                    hits.iter().any(|(k, t)| k == kind && t.contains(expected)),
                    "{kind} {whole:?}: {hits:?}"
                );
            }
        }
    }
}

#[test]
fn what_fails_its_check_is_not_of_the_kind() {
    let cases: [(&str, &[&str]); 10] = [
        (
            "card",
            &["4111111111111112", "1111111111111111", "41111111111"],
        ),
        (
            "iban",
            &[
                "GB83WEST12345698765432",
                "GB82WEST1234569876543",
                "ZZ82WEST12345698765432",
            ],
        ),
        (
            "ip",
            &[
                "256.1.1.1",
                "1.2.3",
                "1.2.3.4.5",
                "std::vec::Vec",
                "12:30:45",
            ],
        ),
        (
            "ssn",
            &[
                "000-12-3456",
                "666-12-3456",
                "123-00-4567",
                "123-45-0000",
                "123-45-67890",
            ],
        ),
        (
            "email",
            &[
                "a@b",
                "@example.org",
                "a @example.org",
                "a@b.c1",
                "a@.org",
                "a@b..org",
            ],
        ),
        (
            "date",
            &[
                "32.13.24",
                "1.2.3.4",
                "45/45/45",
                "May I have your name?",
                "May we?",
                "past week",
                "bathe past week",
                "the_past week, a following month",
            ],
        ),
        (
            "national-id",
            &[
                "12345678A",
                "RSSMRA85T10A562T",
                "xRSSMRA85T10A562S",
                "_RSSMRA85T10A562S",
                "SSMRA85T10A562S",
                "R1SMRA85T10A562S",
            ],
        ),
        ("reference", &["please order the book", "my order is late"]),
        (
            "api-key",
            &[
                "internationalisation-of-documents",
                "00000000000000000000000000",
            ],
        ),
        ("phone", &["12", "1.2.3", "12345678901234567890"]),
    ];
    for (kind, texts) in cases {
        for text in texts {
            let hits = found(only(kind).as_ref(), text);
            assert_eq!(hits, [], "{kind} {text:?}");
        }
    }
}

/// What is written as a social security number is none of telephone, whatever stands before it; other forms may be.
#[test]
fn a_written_social_security_number_is_one() {
    let all = Detectors::new(&DetectorOptions::default()).unwrap();
    for text in ["call 078-05-1120", "it is 078-05-1120."] {
        let kinds: Vec<String> = found(&all, text)
            .into_iter()
            .map(|(kind, _)| kind)
            .collect();
        assert_eq!(kinds, ["ssn"], "{text}");
    }
    // One that was never issued may still be a telephone number.
    assert_eq!(found(&all, "call 000-12-3456")[0].0, "phone");
}

/// Nine digits alone say little; a word before them says which number they are.
#[test]
fn context_raises_a_score() {
    assert_eq!(found(only("ssn").as_ref(), "it is 078051120"), []);
    let text = "my social security number is 078051120";
    assert_eq!(
        found(only("ssn").as_ref(), text),
        [("ssn".to_owned(), "078051120".to_owned())]
    );
    assert_eq!(
        found(only("phone").as_ref(), "the pair 99 577450 holds"),
        []
    );
    assert_eq!(spans(only("phone").as_ref(), "call me: 99 577450").len(), 1);
    // A word that only ends like one is none.
    assert_eq!(found(only("reference").as_ref(), "disorder 12345"), []);
    assert_eq!(spans(only("reference").as_ref(), "order 12345").len(), 1);
}

#[test]
fn a_candidate_that_fails_one_check_is_found_as_another_kind() {
    let hits = found(&all(), "number 4111111111111112.");
    assert_eq!(
        hits,
        [("reference".to_owned(), "4111111111111112".to_owned())]
    );
}

#[test]
fn spans_say_kind_score_and_source() {
    let span = &spans(only("card").as_ref(), "4111111111111111")[0];
    assert_eq!((&*span.kind, &*span.source), ("card", "detectors"));
    assert!(span.score > 0.9 && span.score <= 1.0);
}

#[test]
fn a_country_pack_that_was_not_asked_for_stays_silent() {
    let policy = Detectors::new(&DetectorOptions {
        kinds: vec!["national-id".to_owned(), "ssn".to_owned()],
        countries: vec![Country::Es],
        least: 0.5,
    })
    .unwrap();
    let text = "AB 12 34 56 C, 078-05-1120, 12345678Z";
    assert_eq!(
        found(&policy, text),
        [("national-id".to_owned(), "12345678Z".to_owned())]
    );
}

#[test]
fn secret_keys_without_a_digit_are_found_by_what_they_are_called() {
    let key = "abJrXUtnFEMI/K/MDENG/bPxRfiCYEXAMPLEKEYz";
    for text in [
        format!("aws_secret_access_key = {key}"),
        format!("secretAccessKey: \"{key}\","),
        format!("His secret key is {key}."),
    ] {
        let expected = [("api-key".to_owned(), key.to_owned())];
        assert_eq!(found(only("api-key").as_ref(), &text), expected, "{text}");
    }
}

/// A password with a digit or a mark behind a word and a colon; a private key to its last line.
#[test]
fn passwords_and_private_keys_are_found_whole() {
    let pem =
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n+/x=\n-----END RSA PRIVATE KEY-----";
    for (text, secret) in [
        ("password: hunter2, thanks", "hunter2"),
        ("{\"Password\": \"s3cret!x\"}", "s3cret!x"),
        ("\"password\":12345,\"user\":7", "12345"),
        ("{\\\"pwd\\\": \\\"hunter2\\\"}", "hunter2"),
        ("password = \"hunter,2;x>}'y\" # old", "hunter,2;x>}'y"),
        ("password: hun,ter;2<x}y! yes", "hun,ter;2<x}y!"),
        ("passphrase: 'correct horse staple'", "correct horse staple"),
        ("Passwort: pässwört1", "pässwört1"),
        ("my password is hunter2.", "hunter2"),
        ("password => tr0ub4dor&3", "tr0ub4dor&3"),
        (r#"{"password":"hunter2\"x9tail"}"#, r#"hunter2\"x9tail"#),
        ("password: Abc1\"defGHI", "Abc1\"defGHI"),
        ("password: 'hunter2'tail9'", "hunter2'tail9"),
        ("password: Abcd1</tail", "Abcd1</tail"),
        ("<password>swordfish</password>", "swordfish"),
        ("| password | hunter2 |", "hunter2"),
        ("Password:\n hunter2", "hunter2"),
        ("password=Pass1%20realTail99", "Pass1%20realTail99"),
        ("password=Abcd1+2secretTail", "Abcd1+2secretTail"),
        ("password: C0rrect\\nHorse", "C0rrect\\nHorse"),
        ("export DB_PASSWORD=swordfish", "swordfish"),
        ("userPassword: hunter2", "hunter2"),
        ("contraseña: hunter2", "hunter2"),
        ("Пароль: хантер2", "хантер2"),
        ("client_secret: Abc123!xy", "Abc123!xy"),
        ("API-Key: Abc123!xy", "Abc123!xy"),
        (pem, pem),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIEpA",
            "-----BEGIN PRIVATE KEY-----\nMIIEpA",
        ),
    ] {
        let expected = [("api-key".to_owned(), secret.to_owned())];
        assert_eq!(found(only("api-key").as_ref(), text), expected, "{text}");
    }
    for text in [
        "Password: please reset it",
        "my password is long",
        "the password is case-sensitive",
        "the password is 12 characters long",
        "<b>password:</b> please",
        "| password | description |",
        "Password:\nUsername: bob",
        "my api key: please",
        "-----BEGIN CERTIFICATE-----",
    ] {
        assert_eq!(found(only("api-key").as_ref(), text), [], "{text}");
    }
}

/// Groups of digits with others beside them are a list, unless a word says that they are a telephone number.
#[test]
fn a_list_of_numbers_is_no_telephone_number() {
    for text in [
        "10 20 30 40 50 60 70 80",
        "100 200 300 400 500 600",
        "in 2019 2020 2021 2022 2023",
        "1000 2000 3000 4000",
        "0 1 1 2 3 5 8 13 21 34 55 89 144 233 377 610 987",
    ] {
        assert_eq!(found(only("phone").as_ref(), text), [], "{text}");
    }
    for text in ["it is 91 555 12 34", "call 91 555 12 34 56 7"] {
        assert_eq!(spans(only("phone").as_ref(), text).len(), 1, "{text}");
    }
}

/// What is not seen parts nothing, and digits of other scripts are digits.
#[test]
fn characters_of_no_width_hide_nothing() {
    for (kind, secret) in [
        ("phone", "415\u{200d}-555-0133"),
        ("card", "4111\u{200b}1111\u{200b}1111\u{200b}1111"),
        ("email", "jo\u{ad}hn@\u{2060}example.com"),
        (
            "phone",
            "\u{664}\u{661}\u{665}-\u{665}\u{665}\u{665}-\u{660}\u{661}\u{663}\u{663}",
        ),
    ] {
        let text = format!("here {secret} ends");
        let hits = found(only(kind).as_ref(), &text);
        assert_eq!(hits, [(kind.to_owned(), secret.to_owned())], "{text}");
    }
}

/// What Unicode says to ignore parts nothing, and every space is a space.
#[test]
fn no_invisible_character_and_no_space_hides_anything() {
    let all: String = ('\0'..=char::MAX).collect();
    let list = SecretList::new(vec!["Ada".to_owned(), "Ada King".to_owned()]).unwrap();
    for (property, least, name, secret) in [
        ("Default_Ignorable_Code_Point", 4000, "Ad_a", "Ada"),
        ("Space_Separator", 17, "Ada_King", "Ada King"),
    ] {
        let pattern = regex::Regex::new(&format!(r"\p{{{property}}}")).unwrap();
        let characters: Vec<&str> = pattern
            .find_iter(&all)
            .map(|found| found.as_str())
            .collect();
        assert!(characters.len() >= least, "{}", characters.len());
        for c in characters {
            let card = "4111_1111_1111_1111".replace('_', c);
            let hits = found(only("card").as_ref(), &format!("here {card} ends"));
            assert_eq!(hits, [("card".to_owned(), card)], "{c:?}");
            let names = list.occurring(&name.replace('_', c));
            assert_eq!(names.get(secret), Some(&false), "{c:?}");
        }
    }
    // Numbers of lines and columns are apart.
    for c in ["\n", "\r\n", "\t", "\u{2028}"] {
        let cards = ["4111111111111111", "378282246310005"];
        let hits = found(only("card").as_ref(), &cards.join(c));
        assert_eq!(
            hits,
            cards.map(|card| ("card".to_owned(), card.to_owned())),
            "{c:?}"
        );
    }
}

/// An underscore or a word that touches a number hides it from no pattern, and is not masked with it.
#[test]
fn what_touches_a_number_hides_nothing() {
    for (text, kind, number) in [
        ("card_4111111111111111_x", "card", "4111111111111111"),
        ("visa4111111111111111", "card", "4111111111111111"),
        ("4111 1111 1111 1111visa", "card", "4111 1111 1111 1111"),
        ("my_ssn_219-09-9999.", "ssn", "219-09-9999"),
        (
            "\u{e9} ssn219\u{2011}09\u{2011}9999",
            "ssn",
            "219\u{2011}09\u{2011}9999",
        ),
        (
            "key_DE89370400440532013000",
            "iban",
            "DE89370400440532013000",
        ),
        ("host_192.0.2.1_a", "ip", "192.0.2.1"),
        ("tel555-123-4567call", "phone", "555-123-4567"),
        ("call_555_123_4567", "phone", "555_123_4567"),
    ] {
        let expected = [(kind.to_owned(), number.to_owned())];
        assert_eq!(found(&*only(kind), text), expected, "{text}");
    }
    // What is found without them stays whole.
    for (text, kind) in [
        ("bob_123@example.com", "email"),
        ("abc123@example.com", "email"),
        ("https://example.org/a_1/abc12345?x=1", "url"),
    ] {
        assert_eq!(
            found(&*only(kind), text),
            [(kind.to_owned(), text.to_owned())]
        );
    }
}

/// What stands for a space or a line break in a text within another one neither cuts an address nor joins two lines.
#[test]
fn addresses_with_escapes_are_found_whole() {
    for (text, kind, whole) in [
        (
            "to=mary%20watson@example.org&a",
            "email",
            "mary%20watson@example.org",
        ),
        ("to 1+2@example.org", "email", "1+2@example.org"),
        (r"one\nmary@example.org\ntwo", "email", "mary@example.org"),
        (r"a\é%20mary@example.org", "email", "%20mary@example.org"),
        (
            r"a\nfoo%20mary@example.org",
            "email",
            "foo%20mary@example.org",
        ),
        (
            r"see https://example.org/a\nnext",
            "url",
            "https://example.org/a",
        ),
        (
            r#""see https:\/\/example.org\/a\"""#,
            "url",
            r"https:\/\/example.org\/a",
        ),
    ] {
        let expected = [(kind.to_owned(), whole.to_owned())];
        assert_eq!(found(only(kind).as_ref(), text), expected, "{text}");
    }
}

/// A mail address ends with its host, whatever touches it.
#[test]
fn mail_addresses_end_with_their_host() {
    for (behind, host) in [
        ("example.com.", "example.com"),
        ("example.com-based", "example.com"),
        ("example.com.5", "example.com"),
        ("example.comまで", "example.com"),
        ("münchen.example/x", "münchen.example"),
        ("a.b.c.d.e.f.g.h.org", "a.b.c.d.e.f.g.h.org"),
        ("example.com_", "example.com"),
        ("example.com_x", "example.com"),
    ] {
        let text = format!("to ada@{behind} now");
        let expected = [("email".to_owned(), format!("ada@{host}"))];
        assert_eq!(found(only("email").as_ref(), &text), expected, "{text}");
    }
}

/// Neither letters of other scripts, nor what a terminal shows as a colour, nor one break of a wrapped line hides an identifier.
#[test]
fn scripts_colours_and_wrapped_lines_hide_nothing() {
    for (kind, text, whole) in [
        (
            "iban",
            "号码DE89 3704 0044 0532 0130 00是",
            "DE89 3704 0044 0532 0130 00",
        ),
        (
            "iban",
            "FR1420041010050500013M02606это",
            "FR1420041010050500013M02606",
        ),
        ("ip", "地址2001:db8::1是", "2001:db8::1"),
        (
            "card",
            "card \u{1b}[1m4111 1111 1111 1111\u{1b}[0m.",
            "4111 1111 1111 1111\u{1b}[0m",
        ),
        ("ssn", "ssn=\u{1b}[31m123-45-6789\u{1b}[0mx", "123-45-6789"),
        ("ssn", "12\u{0}3-45-6789", "12\u{0}3-45-6789"),
        (
            "iban",
            "IBAN DE89 3704 0044\n0532 0130 00",
            "DE89 3704 0044\n0532 0130 00",
        ),
        (
            "iban",
            "é GB82 WEST\r\n1234 5698 7654 32.",
            "GB82 WEST\r\n1234 5698 7654 32",
        ),
        (
            "card",
            "my card is 4111 1111\n1111 1111.",
            "4111 1111\n1111 1111",
        ),
        ("card", "4111 1111\r1111 1111", "4111 1111\r1111 1111"),
        (
            "national-id",
            "NIR 2 55 08 14\n168 025 38.",
            "2 55 08 14\n168 025 38",
        ),
        ("ssn", "078&#45;05&#x2D;1120", "078&#45;05&#x2D;1120"),
        (
            "ssn",
            "&#48;78&#8209;05&hyphen;1120;",
            "&#48;78&#8209;05&hyphen;1120",
        ),
        (
            "email",
            "ada&commat;x&period;org",
            "ada&commat;x&period;org",
        ),
    ] {
        let expected = [(kind.to_owned(), whole.to_owned())];
        assert_eq!(found(only(kind).as_ref(), text), expected, "{text}");
    }
    // What controls separate stays apart.
    for (kind, text, whole) in [
        ("card", "a\u{0}4111111111111111\u{0}b", "4111111111111111"),
        (
            "card",
            r"a\u00004111111111111111\u0000b",
            "4111111111111111",
        ),
        (
            "api-key",
            "k \u{1b}[1mAKIAIOSFODNN7EXAMPLE\u{1b}[0mWARN",
            "AKIAIOSFODNN7EXAMPLE",
        ),
    ] {
        let expected = [(kind.to_owned(), whole.to_owned())];
        assert_eq!(found(only(kind).as_ref(), text), expected, "{text}");
    }
    let iban = "DE89370400440532013000";
    let both = format!("{iban}\u{0}{iban}");
    let spans = spans(only("iban").as_ref(), &both);
    assert!((0..iban.len()).all(|at| {
        let masked = |at: usize| {
            spans
                .iter()
                .any(|span| (span.start..span.end).contains(&at))
        };
        masked(at) && masked(both.len() - 1 - at)
    }));
    // Numbers below each other are a column.
    assert_eq!(found(only("card").as_ref(), "4111\n1111\n1111\n1111"), []);
}

/// Part of a decimal number and a time since 1970 need a word that says what else they are.
#[test]
fn decimals_and_times_are_no_identifiers() {
    let all = Detectors::new(&DetectorOptions::default()).unwrap();
    for text in [
        "pi is 3.14159265358979, loss 0.123456789012",
        "score 0.4111111111111111",
        "12345678901.25",
        "epoch 1700000000",
        "at 1700000000123 and 1700000000123456",
    ] {
        assert_eq!(found(&all, text), [], "{text}");
    }
    for (text, number) in [
        ("it is 2125550123.", "2125550123"),
        ("it is 4111111111111111.", "4111111111111111"),
        ("call 1700000000", "1700000000"),
        ("order 1700000000123", "1700000000123"),
        ("the card: 1.4111111111111111", "4111111111111111"),
        // Whole numbers of a table with gaps, and what a checksum tells from a number.
        ("it is 4111111111111111.0", "4111111111111111"),
        ("it is 4111111111111111.5", "4111111111111111"),
        ("it is 2125550123.00", "2125550123"),
        ("nr 44051401359.1.pdf", "44051401359"),
    ] {
        let texts: Vec<String> = found(&all, text).into_iter().map(|(_, t)| t).collect();
        assert_eq!(texts, [number], "{text}");
    }
}

/// Signed ones have three parts, encrypted ones five; a sentence may end behind them.
#[test]
fn web_tokens_are_found_whole() {
    let signed = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl";
    for token in [signed, "eyJhbGciOiJSU0EtT0FFUCJ9.ab.cd.ef.gh"] {
        for text in [format!("it is {token}."), format!("x.{token}, y")] {
            let expected = [("api-key".to_owned(), token.to_owned())];
            assert_eq!(found(only("api-key").as_ref(), &text), expected, "{text}");
        }
    }
}

#[test]
fn wrong_options_are_named_with_their_range() {
    let options = |kind: &str, least| DetectorOptions {
        kinds: vec![kind.to_owned()],
        least,
        ..DetectorOptions::default()
    };
    let text = Detectors::new(&options("name", 0.5))
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("a kind of detector must be one of api-key, ")
            && text.ends_with("got another name"),
        "{text}"
    );
    for least in [-0.1, 1.1, f32::NAN] {
        let text = Detectors::new(&options("card", least))
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            format!("the least score must be from 0 to 1, got {least}")
        );
    }
}

/// Work per byte, not time: 300 000 bytes in which a match could begin everywhere. With work
/// that grows by the square this test would not end.
#[test]
fn hostile_texts_end() {
    let policy = all();
    for piece in [
        "a.",
        "1,",
        "1-",
        "@a.",
        ":a",
        "http://",
        "1 ",
        "A1-",
        "one ",
        "eyJ",
        "eyJaaaaaaaaaaa.",
        "eyJaaaaaaaaaaa-",
        "\u{1b}[1;",
        "1111 1111\n",
        "\u{fffc}1",
        "é@",
    ] {
        let text = piece.repeat(300_000 / piece.len());
        let mut out = Vec::new();
        policy.find(
            &View {
                text: &text,
                secrets: &[],
            },
            &mut out,
        );
        assert!(
            out.iter().all(|s| s.start < s.end
                && text.is_char_boundary(s.start)
                && text.is_char_boundary(s.end)),
            "{piece}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any text at all: no panic, spans inside it and on characters.
    #[test]
    fn any_text_is_searched(
        text in "[0-9a-zA-Z@.:/ é+()#$€%–-]{0,60}|\\PC{0,40}|([pP]wd[:= ]|@[xé]\\.org|://|%20|\\\\n?|[\"'é1a .:=<>/|+]|e\u{301}){0,24}"
    ) {
        let policy = all();
        let mut out = Vec::new();
        policy.find(&View { text: &text, secrets: &[] }, &mut out);
        for span in out {
            prop_assert!(span.start < span.end && span.end <= text.len());
            prop_assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end));
            prop_assert!((0.0..=1.0).contains(&span.score));
        }
    }

    /// One pass over all rules finds at least what each kind finds by itself.
    #[test]
    fn no_kind_hides_another(text in "([0-9]{1,5}[ ./:,-]?|[a-z]{1,4}@?|[A-Z]{1,3}|call |order |\\$|%| ){0,16}") {
        let together = spans(&all(), &text);
        for kind in IDENTIFYING.iter().chain(&NUMERIC) {
            for span in spans(only(kind).as_ref(), &text) {
                prop_assert!(together.iter().any(|s| s.start <= span.start && span.end <= s.end), "{kind} {:?}", &text[span.start..span.end]);
            }
        }
    }
}

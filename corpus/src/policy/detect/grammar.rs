//! Grammars of English numbers and times: dates, times, money, percentages, quantities,
//! ordinals, cardinals.

use super::checks;
use super::engine::Rule;

const MONTH: &str = r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?|JAN(?:UARY)?|FEB(?:RUARY)?|MAR(?:CH)?|APR(?:IL)?|MAY|JUNE?|JULY?|AUG(?:UST)?|SEPT?(?:EMBER)?|OCT(?:OBER)?|NOV(?:EMBER)?|DEC(?:EMBER)?)";
const MONTH_ALONE: &str = r"(?:January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Aug|Sept|Oct|Nov|Dec)";
const WEEKDAY: &str = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?";
const NUMBER: &str = r"(?:\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,9})?|\d{1,18}(?:\.\d{1,9})?)";
/// A single number word.
const WORDS: &str = r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|billion|trillion|dozen|half)";
const ORDINALS: &str = r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|thirteenth|fourteenth|fifteenth|sixteenth|seventeenth|eighteenth|nineteenth|twentieth|thirtieth|hundredth|thousandth)";
const PERIOD: &str = r"(?:day|week|fortnight|weekend|month|quarter|year|decade|century|season|spring|summer|autumn|fall|winter)s?";
const UNIT: &str = r"(?:km|kilomet(?:re|er)s?|cm|mm|m|met(?:re|er)s?|centimet(?:re|er)s?|miles?|mi|feet|foot|ft|inch(?:es)?|yards?|acres?|hectares?|ha|kg|kilograms?|kilos?|g|grams?|mg|tons?|tonnes?|lbs?|pounds?|ounces?|oz|lit(?:re|er)s?|ml|gallons?|mph|km/h|knots?|kW|MW|watts?|volts?|GB|MB|kB|TB|bytes|Hz|kHz|MHz|GHz|degrees|hp)";

fn amount() -> String {
    format!(
        r"(?:{NUMBER}|{WORDS}(?:[ -](?:and )?{WORDS}){{0,4}})(?: (?:thousand|million|billion|trillion))?"
    )
}

pub(super) fn rules() -> Vec<Rule> {
    let amount = amount();
    let mut out = dates();
    out.extend(times());
    out.extend([
        Rule::new("percent", 0.95, format!(r"\b{amount}(?: ?%|(?:-| )?(?:per ?cent\b|percent(?:age points?)?\b))")).any_case(),
        Rule::new(
            "money",
            0.95,
            format!(r"(?:\bUS\$|\bA\$|\bC\$|\$|€|£|¥|₹)[ ]?{NUMBER}(?: ?(?:k|m|bn|thousand|million|billion|trillion)\b)?"),
        )
        .any_case(),
        Rule::new(
            "money",
            0.9,
            format!(r"\b{amount} ?(?:€|£|¥|₹|(?:(?:US |Canadian |Australian )?dollars?|euros?|pounds sterling|pence|cents?|bucks|yen|yuan|rupees?|francs?|USD|EUR|GBP|CHF|JPY|CAD|AUD|INR|CNY)\b)"),
        )
        .any_case(),
        Rule::new("money", 0.9, format!(r"\b(?:USD|EUR|GBP|CHF|JPY|CAD|AUD|INR|CNY) ?{NUMBER}\b")),
        Rule::new("quantity", 0.85, format!(r"\b{amount}[ -]?{UNIT}\b|\b{amount} ?°[ ]?[CF]\b")).any_case(),
        Rule::new("ordinal", 0.9, r"\b\d{1,9}(?:st|nd|rd|th)\b").any_case(),
        Rule::new("ordinal", 0.8, format!(r"\b(?:{WORDS}-)?{ORDINALS}\b")).any_case(),
        Rule::new("cardinal", 0.9, format!(r"\b{NUMBER}\b")),
        Rule::new("cardinal", 0.8, format!(r"\b{WORDS}(?:[ -](?:and )?{WORDS}){{0,4}}\b")).any_case(),
    ]);
    out
}

fn dates() -> Vec<Rule> {
    let amount = amount();
    vec![
        Rule::new("date", 0.9, r"\b\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b|\b\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})\b")
            .checked(checks::numeric_date),
        // ISO 8601 with a time.
        Rule::new("date", 0.95, r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z\b|[+-]\d{2}:?\d{2}\b)?"),
        Rule::new(
            "date",
            0.95,
            format!(r"\b(?:{WEEKDAY},? )?{MONTH}\.? (?:the )?\d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}}\b)?|\b(?:{WEEKDAY},? )?\d{{1,2}}(?:st|nd|rd|th)?[ -](?:of )?{MONTH}\b\.?(?:,?[ -]\d{{2,4}}\b)?|\b{MONTH}\.?,? \d{{4}}\b"),
        ),
        Rule::new("date", 0.7, format!(r"\b{MONTH_ALONE}\b|\b{WEEKDAY}\b")).checked(checks::no_question),
        Rule::new("date", 0.8, r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b"),
        Rule::new("date", 0.7, r"\b(?:1[0-9]|20)\d\d(?:s|(?:[-/]|–)\d{2,4})?\b"),
        Rule::new("date", 0.8, r"\b(?:yesterday|today|tomorrow)\b").any_case(),
        Rule::new(
            "date",
            0.8,
            // Nearly every sentence has a "the", so that it is looked for behind.
            format!(r"\b(?:last|next|this|previous|coming|every|each|past|following) (?:{PERIOD}|{MONTH_ALONE}|{WEEKDAY})\b"),
        )
        .any_case()
        .checked(checks::past_and_following),
        Rule::new("date", 0.8, format!(r"\b{amount}[ -](?:days?|weeks?|months?|years?|decades?|centur(?:y|ies)|fortnights?)(?:[ -]old| ago| later| earlier)?\b"))
            .any_case(),
        Rule::new("date", 0.75, format!(r"\b(?:\d{{1,2}}(?:st|nd|rd|th)|{ORDINALS})[ -]century\b")).any_case(),
        // Ages.
        Rule::new("date", 0.7, r"\b(?:aged?|turned) \d{1,3}\b").any_case(),
    ]
}

fn times() -> Vec<Rule> {
    let amount = amount();
    vec![
        Rule::new("time", 0.9, r"\b(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?\b(?: ?[ap]\.?m\b\.?)?").any_case(),
        Rule::new("time", 0.9, r"\b(?:1[0-2]|0?[1-9])(?:[.:][0-5]\d)? ?(?:[ap]m\b|[ap]\.m\.)").any_case(),
        Rule::new("time", 0.85, format!(r"\b(?:\d{{1,2}}|{WORDS}) o'clock\b")).any_case(),
        Rule::new("time", 0.75, r"\b(?:noon|midnight|tonight|(?:this|yesterday|tomorrow) (?:morning|afternoon|evening)|last night)\b").any_case(),
        Rule::new("time", 0.8, format!(r"\b{amount}[ -](?:hours?|hrs?|minutes?|mins?|seconds?|secs?|milliseconds?)\b")).any_case(),
    ]
}

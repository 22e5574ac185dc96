//! Closed word classes, capitals, and short lists of countries, peoples and languages.

use super::EntityKind;
use crate::policy::MASKED;
use std::ops::Range;

const PRONOUNS: &str = " i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself we us our ours ourselves they them their theirs themselves who whom whose what which this that these those someone somebody something anyone anybody anything everyone everybody everything nobody nothing none one oneself each other another i'm i've i'd i'll you're you've you'd you'll he's he'd he'll she's she'd she'll it's it'd it'll we're we've we'd we'll they're they've they'd they'll who's what's that's ";

/// Iterates over words with their places, split at white space and without punctuation, and whether
/// each begins a sentence.
fn words(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let base = text.as_ptr() as usize;
    let mut begins = true;
    text.split_inclusive(char::is_whitespace)
        .filter_map(move |piece| {
            let word = piece.trim_end();
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != MASKED);
            if bare.is_empty() {
                begins |= word.ends_with(['.', '!', '?', '\n']);
                return None;
            }
            let first = begins;
            let speaker = word.ends_with(':') && bare.chars().all(char::is_uppercase);
            begins = (first && speaker) || word.ends_with(['.', '!', '?']) || piece.ends_with('\n');
            Some((bare.as_ptr() as usize - base, bare, first))
        })
}

/// Finds pronouns, including those contracted with verbs.
pub(super) fn pronouns(text: &str) -> impl Iterator<Item = Range<usize>> {
    words(text).filter_map(|(at, word, _)| {
        let plain = word.replace('’', "'").to_ascii_lowercase();
        let known = PRONOUNS.contains(&format!(" {plain} "));
        // Of a contraction, only the pronoun.
        let length = word.find(['\'', '’']).unwrap_or(word.len());
        known.then_some(at..at + length)
    })
}

/// Finds runs of capitalised words that do not begin a sentence. A speaker mark does not begin a
/// sentence.
pub(super) fn names(text: &str) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for (at, word, first) in words(text) {
        let stem = word.split(['\'', '’']).next().unwrap_or(word);
        let capital = word.starts_with(char::is_uppercase) && stem != "I";
        if first || !capital {
            continue;
        }
        let end = at + word.trim_end_matches("'s").trim_end_matches("’s").len();
        match out.last_mut() {
            Some(last) if text[last.end..at].chars().all(|c| c == ' ') => last.end = end,
            _ => out.push(at..end),
        }
    }
    out
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|w| w.trim().to_owned()).collect()
}

/// Returns the lists of countries and peoples.
pub(crate) fn listed() -> (Vec<String>, Vec<String>) {
    (list(COUNTRIES), list(PEOPLES))
}

/// Returns the lists by which a name at the beginning of a sentence is found.
pub(super) fn lists() -> Vec<(EntityKind, Vec<String>)> {
    vec![
        (EntityKind::Gpe, list(COUNTRIES)),
        (EntityKind::Norp, list(PEOPLES)),
        (EntityKind::Language, list(LANGUAGES)),
    ]
}

const COUNTRIES: &str = "Afghanistan, Albania, Algeria, Andorra, Angola, Argentina, Armenia, Australia, Austria, Azerbaijan, Bahamas, Bahrain, Bangladesh, Barbados, Belarus, Belgium, Belize, Benin, Bhutan, Bolivia, Bosnia and Herzegovina, Botswana, Brazil, Brunei, Bulgaria, Burkina Faso, Burundi, Cambodia, Cameroon, Canada, Cape Verde, Chad, Chile, China, Colombia, Congo, Costa Rica, Croatia, Cuba, Cyprus, Czechia, Czech Republic, Denmark, Djibouti, Dominica, Dominican Republic, Ecuador, Egypt, El Salvador, Eritrea, Estonia, Eswatini, Ethiopia, Fiji, Finland, France, Gabon, Gambia, Georgia, Germany, Ghana, Great Britain, Greece, Grenada, Guatemala, Guinea, Guyana, Haiti, Honduras, Hungary, Iceland, India, Indonesia, Iran, Iraq, Ireland, Israel, Italy, Ivory Coast, Jamaica, Japan, Jordan, Kazakhstan, Kenya, Kosovo, Kuwait, Kyrgyzstan, Laos, Latvia, Lebanon, Lesotho, Liberia, Libya, Liechtenstein, Lithuania, Luxembourg, Madagascar, Malawi, Malaysia, Maldives, Mali, Malta, Mauritania, Mauritius, Mexico, Moldova, Monaco, Mongolia, Montenegro, Morocco, Mozambique, Myanmar, Namibia, Nepal, Netherlands, New Zealand, Nicaragua, Niger, Nigeria, North Korea, North Macedonia, Norway, Oman, Pakistan, Panama, Papua New Guinea, Paraguay, Peru, Philippines, Poland, Portugal, Qatar, Romania, Russia, Rwanda, Samoa, San Marino, Saudi Arabia, Senegal, Serbia, Seychelles, Sierra Leone, Singapore, Slovakia, Slovenia, Somalia, South Africa, South Korea, South Sudan, Spain, Sri Lanka, Sudan, Suriname, Sweden, Switzerland, Syria, Taiwan, Tajikistan, Tanzania, Thailand, Togo, Tonga, Tunisia, Turkey, Turkmenistan, Uganda, Ukraine, United Arab Emirates, United Kingdom, United States, United States of America, Uruguay, Uzbekistan, Vanuatu, Vatican City, Venezuela, Vietnam, Yemen, Zambia, Zimbabwe, England, Scotland, Wales, Northern Ireland, USA, UK";
const PEOPLES: &str = "African, Africans, American, Americans, Arab, Arabs, Argentine, Asian, Asians, Australian, Australians, Austrian, Austrians, Belgian, Brazilian, British, Buddhist, Buddhists, Bulgarian, Canadian, Canadians, Catholic, Catholics, Chilean, Chinese, Christian, Christians, Colombian, Communist, Conservative, Croatian, Cuban, Czech, Danish, Democrat, Democrats, Dutch, Egyptian, English, Estonian, European, Europeans, Finnish, French, German, Germans, Greek, Greeks, Hindu, Hindus, Hungarian, Icelandic, Indian, Indians, Indonesian, Iranian, Iraqi, Irish, Islamic, Israeli, Israelis, Italian, Italians, Japanese, Jew, Jewish, Jews, Kenyan, Korean, Koreans, Kurd, Kurdish, Kurds, Latino, Mexican, Mexicans, Muslim, Muslims, Nigerian, Norwegian, Orthodox, Pakistani, Palestinian, Palestinians, Persian, Polish, Portuguese, Protestant, Protestants, Republican, Republicans, Romanian, Russian, Russians, Saudi, Scottish, Serb, Serbian, Serbs, Shia, Sikh, Slovak, Slovenian, Spanish, Sunni, Swedish, Swiss, Syrian, Syrians, Taiwanese, Thai, Tibetan, Turk, Turkish, Turks, Ukrainian, Ukrainians, Vietnamese, Welsh";
const LANGUAGES: &str = "Afrikaans, Albanian, Amharic, Arabic, Armenian, Basque, Bengali, Bosnian, Bulgarian, Burmese, Cantonese, Catalan, Chinese, Croatian, Czech, Danish, Dutch, English, Esperanto, Estonian, Finnish, French, Gaelic, Georgian, German, Greek, Gujarati, Hausa, Hebrew, Hindi, Hungarian, Icelandic, Indonesian, Italian, Japanese, Javanese, Khmer, Korean, Kurdish, Lao, Latin, Latvian, Lithuanian, Malay, Mandarin, Marathi, Mongolian, Nepali, Norwegian, Pashto, Persian, Polish, Portuguese, Punjabi, Quechua, Romanian, Russian, Sanskrit, Serbian, Slovak, Slovenian, Somali, Spanish, Swahili, Swedish, Tagalog, Tamil, Telugu, Thai, Tibetan, Turkish, Ukrainian, Urdu, Uzbek, Vietnamese, Welsh, Yiddish, Yoruba, Zulu";

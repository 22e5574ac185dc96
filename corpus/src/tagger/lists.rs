//! Lists of words that are often parts of names, used as evidence for the chain of names rather
//! than as a decision.

use super::chain::QuickMap;
use super::features::text_hash;
use crate::policy::listed;

/// In no list.
pub(super) const NONE: u8 = 0;

/// The lists that contain a word, one bit each, by the hash of the word in lower case.
#[derive(Debug)]
pub(super) struct Lists(QuickMap<u64, u8>);

const FIRST: u8 = 1;
const PLACE: u8 = 2;
const PEOPLE: u8 = 4;
const CALENDAR: u8 = 8;
const BODY: u8 = 16;
const TITLE: u8 = 32;
const LAST: u8 = 64;
const SPOT: u8 = 128;

impl Lists {
    pub(super) fn new() -> Self {
        let mut all = QuickMap::default();
        let hash = |word: &str| text_hash(word.to_lowercase().bytes());
        for (words, bit) in [
            (FIRST_NAMES, FIRST),
            (LAST_NAMES, LAST),
            (PLACES, PLACE),
            (DAYS, CALENDAR),
            (BODIES, BODY),
            (TITLES, TITLE),
            (SPOTS, SPOT),
        ] {
            for word in words.split_whitespace() {
                *all.entry(hash(word)).or_default() |= bit;
            }
        }
        let (places, peoples) = listed();
        for (words, bit) in [(places, PLACE), (peoples, PEOPLE)] {
            for word in words
                .iter()
                .flat_map(|w| w.split_whitespace())
                .filter(|w| w.len() > 3)
            {
                *all.entry(hash(word)).or_default() |= bit;
            }
        }
        Self(all)
    }

    pub(super) fn of(&self, hash: u64) -> u8 {
        self.0.get(&hash).copied().unwrap_or(NONE)
    }
}

const FIRST_NAMES: &str = "James John Robert Michael William David Richard Joseph Thomas Charles Christopher Daniel Matthew Anthony Donald Mark Paul Steven Andrew Kenneth George Joshua Kevin Brian Edward Ronald Timothy Jason Jeffrey Ryan Jacob Gary Nicholas Eric Stephen Jonathan Larry Justin Scott Brandon Frank Benjamin Gregory Samuel Raymond Patrick Alexander Jack Dennis Jerry Tyler Aaron Henry Jose Douglas Peter Adam Nathan Zachary Walter Kyle Harold Carl Jeremy Keith Roger Gerald Ethan Arthur Terry Christian Sean Lawrence Austin Joe Noah Jesse Albert Bryan Billy Bruce Willie Jordan Dylan Alan Ralph Gabriel Roy Juan Wayne Eugene Logan Randy Louis Russell Vincent Philip Bobby Johnny Bradley Oliver Harry Luke Simon Martin Neil Ian Graham Colin Stuart Liam Owen Connor Max Leo Oscar Felix Hugo Ivan Boris Igor Sergei Vladimir Dmitri Hans Karl Klaus Fritz Otto Pierre Jean Jacques Marcel Michel Luis Carlos Miguel Pedro Diego Javier Fernando Antonio Manuel Pablo Rafael Mario Luigi Giovanni Marco Ahmed Mohammed Muhammad Ali Hassan Omar Ibrahim Khalid Abdul Raj Ravi Amit Sanjay Arjun Wei Ming Hiroshi Kenji Takeshi Mike Bob Bill Tom Jim Dave Dan Steve Chris Matt Tony Nick Ben Sam Greg Jeff Tim Rob Ron Ken Ed Ted Fred Pete Andy Alex Josh Jake Will Rick Ray Don Phil Doug Phillip Stan Hugh Craig Derek Trevor Brett Kurt Ernest Stanley Leonard Norman Marvin Glenn Herbert Clarence Howard Victor Mary Patricia Jennifer Linda Elizabeth Barbara Susan Jessica Sarah Karen Nancy Lisa Betty Margaret Sandra Ashley Kimberly Emily Donna Michelle Dorothy Carol Amanda Melissa Deborah Stephanie Rebecca Sharon Laura Cynthia Kathleen Amy Shirley Angela Helen Anna Brenda Pamela Nicole Samantha Katherine Emma Ruth Christine Catherine Debra Rachel Carolyn Janet Virginia Maria Heather Diane Julie Joyce Victoria Kelly Christina Lauren Joan Evelyn Olivia Judith Megan Cheryl Martha Andrea Frances Hannah Jacqueline Ann Gloria Jean Kathryn Alice Teresa Sara Janice Doris Madison Julia Grace Judy Abigail Marie Denise Beverly Amber Theresa Marilyn Danielle Diana Brittany Natalie Sophia Rose Isabella Alexis Kayla Charlotte Jane Lucy Kate Claire Fiona Sophie Chloe Ella Mia Zoe Ava Lily Ellen Ada Eva Ida Clara Nora Sally Wendy Tina Tracy Paula Monica Erica Vanessa Leah Molly Amelia Louise Irene Anne Annie Jenny Jill Kim Sue Liz Beth Katie Maggie Peggy Rita Rosa Elena Carmen Lucia Sofia Ana Olga Natasha Svetlana Ingrid Greta Heidi Ursula Yuki Mei Priya Anita Fatima Aisha Leila Miriam Naomi Esther Eleanor Harriet Edith Agnes Marion Lois Vera Stella Justin Taylor Selena Britney Kanye Beyonce Rihanna Oprah Barack Hillary Lebron Kobe Demi Miley Zayn Niall";
const LAST_NAMES: &str = "Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez Gonzalez Wilson Anderson Thomas Taylor Moore Jackson Martin Lee Perez Thompson White Harris Sanchez Clark Ramirez Lewis Robinson Walker Young Allen King Wright Scott Torres Nguyen Hill Flores Green Adams Nelson Baker Hall Rivera Campbell Mitchell Carter Roberts Gomez Phillips Evans Turner Diaz Parker Cruz Edwards Collins Reyes Stewart Morris Morales Murphy Cook Rogers Gutierrez Ortiz Morgan Cooper Peterson Bailey Reed Kelly Howard Ramos Kim Cox Ward Richardson Watson Brooks Chavez Wood James Bennett Gray Mendoza Ruiz Hughes Price Alvarez Castillo Sanders Patel Myers Long Ross Foster Jimenez Powell Jenkins Perry Russell Sullivan Bell Coleman Butler Henderson Barnes Fisher Vasquez Simmons Romero Jordan Patterson Alexander Hamilton Graham Reynolds Griffin Wallace West Cole Hayes Bryant Herrera Gibson Ellis Tran Medina Stevens Murray Ford Marshall Owens McDonald Harrison Kennedy Wells Woods Washington Freeman Webb Tucker Burns Henry Crawford Olson Simpson Porter Hunter Gordon Mendez Shaw Snyder Mason Dixon Hunt Hicks Holmes Palmer Wagner Black Robertson Boyd Stone Fox Warren Mills Meyer Rice Schmidt Fernandez Nichols Chen Singh Khan Wang Zhang Liu Yang Obama Clinton Bush Trump Blair Cameron Putin Merkel Bieber Gaga Swift Perry Cohen Levy O'Brien O'Connor O'Neill Müller Schneider Fischer Weber Ivanov Petrov Sato Suzuki Tanaka";
const PLACES: &str = "London Paris Berlin Madrid Rome Vienna Dublin Moscow Tokyo Beijing Shanghai Delhi Mumbai Sydney Melbourne Toronto Montreal Vancouver Chicago Boston Houston Dallas Austin Phoenix Philadelphia Detroit Seattle Denver Atlanta Miami Orlando Tampa Cleveland Cincinnati Pittsburgh Baltimore Milwaukee Minneapolis Portland Sacramento Oakland Brooklyn Manhattan Hollywood Nashville Memphis Charlotte Indianapolis Columbus Omaha Tulsa Albuquerque Tucson Honolulu Anchorage Buffalo Rochester Cambridge Oxford Manchester Liverpool Birmingham Leeds Glasgow Edinburgh Cardiff Belfast Bristol Lisbon Barcelona Milan Venice Naples Florence Athens Istanbul Ankara Cairo Baghdad Tehran Kabul Damascus Beirut Jerusalem Gaza Riyadh Dubai Doha Karachi Lahore Islamabad Dhaka Bangkok Hanoi Saigon Manila Jakarta Singapore Seoul Pyongyang Taipei Osaka Kyoto Nairobi Lagos Johannesburg Amsterdam Brussels Geneva Zurich Munich Hamburg Frankfurt Cologne Prague Budapest Warsaw Stockholm Oslo Copenhagen Helsinki Kiev Alabama Alaska Arizona Arkansas California Colorado Connecticut Delaware Florida Hawaii Idaho Illinois Indiana Iowa Kansas Kentucky Louisiana Maine Maryland Massachusetts Michigan Minnesota Mississippi Missouri Montana Nebraska Nevada Ohio Oklahoma Oregon Pennsylvania Tennessee Texas Utah Vermont Wisconsin Wyoming Ontario Quebec Alberta Manitoba Yorkshire Kent Essex Sussex Surrey Cornwall Devon Bavaria Tuscany Catalonia Siberia Crimea Chechnya Kashmir Punjab Bengal Tibet Europe Asia Africa America Antarctica Atlantic Pacific Mediterranean Caribbean Himalayas Alps Thames Danube Nile Amazon Mississippi NYC LA USA US UK U.S. U.K. EU UAE";
const DAYS: &str = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July August September October November December Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thurs Fri Sat Sun Christmas Easter Halloween Thanksgiving";
const BODIES: &str = "Inc Inc. Ltd Ltd. Corp Corp. Co Co. LLC Company Corporation Group Bank University College School Institute Association Society Party Committee Commission Council Ministry Department Agency Office Union Federation League Club Team Army Navy Force Police Court Congress Senate Parliament Church Hospital Foundation Trust Board Bureau Organization Organisation Times Post News Journal Press Records Studios Airlines Motors Systems Technologies Industries Holdings Partners Associates Services Network Television Radio FC United City Rovers Microsoft Google Apple Facebook Twitter Amazon Sony IBM Intel Yahoo BBC CNN NBC CBS ABC ESPN MTV NASA FBI CIA NATO UN WHO IMF NFL NBA MLB NHL FIFA UEFA Enron";
const TITLES: &str = "Mr Mr. Mrs Mrs. Ms Ms. Dr Dr. Prof Prof. Professor President Senator Governor Minister Secretary Chairman CEO King Queen Prince Princess Pope Sir Lord Lady Captain General Colonel Sergeant Judge Justice Mayor Coach Rev. Rep. Sen. Gov. Gen. Jr Jr. Sr";
const SPOTS: &str = "Street St St. Road Rd Rd. Avenue Ave Ave. Lane Drive Square Park Bridge River Lake Mount Mountain Mountains Island Islands Bay Beach Valley Hills Hill Forest Desert Sea Ocean Gulf Canal Airport Station Stadium Tower Palace Castle Hall Museum Theatre Theater Hotel County Province State District Village Town North South East West Northern Southern Eastern Western New San Los Las Santa Saint Fort Port Cape El";

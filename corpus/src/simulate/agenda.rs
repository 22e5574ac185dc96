//! The agenda of a dialogue, and the filling of its templates.

use super::people::GOODS;
use super::phrases as say;
use super::values;
use crate::document::Document;
use crate::random::Choices;

/// The prefix of a customer's lines.
pub(super) const USER: &str = "USR: ";

/// A customer's reason for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Late,
    Damaged,
    Cancel,
    Moved,
}

/// The acts of a customer's turn: the classes of a sentence task.
pub(super) const ACTS: [&str; 7] = [
    "problem", "identify", "story", "wait", "question", "call", "close",
];
const PROBLEM: &str = ACTS[0];
const IDENTIFY: &str = ACTS[1];
const STORY: &str = ACTS[2];
const WAIT: &str = ACTS[3];
const QUESTION: &str = ACTS[4];
const CALL: &str = ACTS[5];
const CLOSE: &str = ACTS[6];

/// A dialogue under construction.
struct Script<'a> {
    choices: &'a mut Choices,
    document: Document,
    /// The act of each line; `None` for the agent's lines.
    acts: Vec<Option<&'static str>>,
    characters: usize,
    name: String,
    address: String,
    phone: String,
    order: String,
    tracking: String,
    goods: &'static str,
}

/// Generates one dialogue, with the act of each of its lines.
pub(super) fn dialogue(
    number: usize,
    choices: &mut Choices,
) -> (Document, Vec<Option<&'static str>>) {
    let reason = *[Reason::Late, Reason::Damaged, Reason::Cancel, Reason::Moved]
        .get(choices.index(4))
        .unwrap_or(&Reason::Late);
    let mut script = Script::new(number, choices);
    script.system(&say::GREETING);
    let problem: &[&str] = match reason {
        Reason::Late => &say::LATE,
        Reason::Damaged => &say::DAMAGED,
        Reason::Cancel => &say::CANCEL,
        Reason::Moved => &say::MOVED,
    };
    script.user(PROBLEM, problem);
    script.system(&say::ASK_NAME);
    script.user(IDENTIFY, &say::GIVE_NAME);
    script.identify();
    script.story();
    script.system(&say::WAIT);
    script.user(WAIT, &say::PATIENCE);
    if script.choices.chance(1, 2) {
        script.story();
    }
    script.answer(reason);
    script.chat();
    script.system(&say::MORE);
    script.user(CLOSE, &say::ENOUGH);
    script.system(&say::FAREWELL);
    (script.document, script.acts)
}

impl<'a> Script<'a> {
    fn new(number: usize, choices: &'a mut Choices) -> Self {
        Self {
            document: Document::new(format!("dialogue-{number}"), ""),
            acts: Vec::new(),
            characters: 0,
            name: values::name(choices),
            address: values::address(choices),
            phone: values::phone(choices),
            order: values::order(choices),
            tracking: values::tracking(choices),
            goods: GOODS[choices.index(GOODS.len())],
            choices,
        }
    }

    /// Asks for the phone number, the order or the address.
    fn identify(&mut self) {
        let (ask, give): (&[&str], &[&str]) = match self.choices.below(3) {
            0 => (&say::ASK_PHONE, &say::GIVE_PHONE),
            1 => (&say::ASK_ORDER, &say::GIVE_ORDER),
            _ => (&say::ASK_ADDRESS, &say::GIVE_ADDRESS),
        };
        self.system(ask);
        self.user(IDENTIFY, give);
    }

    /// One or two sentences of free text without a secret.
    fn story(&mut self) {
        for number in 0..2 {
            self.user(STORY, &say::STORY);
            if number == 0 {
                self.system(&say::STORY_HEARD);
            }
        }
    }

    fn answer(&mut self, reason: Reason) {
        match reason {
            Reason::Late => self.system(&say::ANSWER_LATE),
            Reason::Damaged => self.system(&say::ANSWER_DAMAGED),
            Reason::Cancel => self.system(&say::ANSWER_CANCEL),
            Reason::Moved => {
                self.system(&say::ASK_NEW_ADDRESS);
                self.address = values::address(self.choices);
                self.user(IDENTIFY, &say::GIVE_ADDRESS);
                self.system(&say::ANSWER_MOVED);
            }
        }
    }

    /// Adds one or two questions without secrets, and sometimes a request for a call.
    fn chat(&mut self) {
        let questions = 1 + usize::from(self.choices.chance(1, 2));
        for number in self.choices.distinct(say::QUESTIONS.len(), questions) {
            let (question, answers) = say::QUESTIONS[number];
            self.user(QUESTION, &[question]);
            self.system(&answers);
        }
        if self.choices.chance(1, 4) {
            self.user(CALL, &say::CALL_BACK);
            self.system(&say::CALL_NOTED);
        }
    }

    fn system(&mut self, templates: &[&'static str]) {
        let template = self.choices.pick(templates);
        self.acts.push(None);
        self.line("SYS: ", template);
    }

    fn user(&mut self, act: &'static str, templates: &[&'static str]) {
        let template = self.choices.pick(templates);
        self.acts.push(Some(act));
        self.line(USER, template);
    }

    /// Appends a filled template, and marks its secrets.
    fn line(&mut self, speaker: &str, template: &str) {
        if !self.document.text.is_empty() {
            self.push("\n");
        }
        self.push(speaker);
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (slot, tail) = after.split_once('}').unwrap_or((after, ""));
            self.push(before);
            let start = self.characters;
            match self.secret(slot) {
                Some(value) => {
                    self.push(&value);
                    let end = self.characters;
                    let document = std::mem::replace(&mut self.document, Document::new("", ""));
                    self.document = document.with_secret(start, end, slot);
                }
                None => {
                    let filling = self.filling(slot);
                    self.push(filling);
                }
            }
            rest = tail;
        }
        self.push(rest);
    }

    /// Returns a filling for a slot that is not secret.
    fn filling(&mut self, slot: &str) -> &'static str {
        match slot {
            "whom" => self.choices.pick(&say::WHOM),
            "when" => self.choices.pick(&say::WHEN),
            "place" => self.choices.pick(&say::PLACE),
            "plan" => self.choices.pick(&say::PLAN),
            _ => self.goods,
        }
    }

    /// Returns the secret of a slot, whose name is its kind.
    fn secret(&self, slot: &str) -> Option<String> {
        let secret = match slot {
            "name" => &self.name,
            "address" => &self.address,
            "phone" => &self.phone,
            "order" => &self.order,
            "tracking" => &self.tracking,
            _ => return None,
        };
        Some(secret.clone())
    }

    fn push(&mut self, text: &str) {
        self.document.text.push_str(text);
        self.characters += text.chars().count();
    }
}

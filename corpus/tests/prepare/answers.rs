//! Loss on the assistant's messages alone, from the template to the record.
#![allow(clippy::single_range_in_vec_init, reason = "a list of one range")]

use super::{corpus, numbers};
use reticent_corpus::canary::CanaryOptions;
use reticent_corpus::prepare::{PrepareOptions, Prepared, TokenizerChoice, prepare};
use reticent_corpus::read::{ChatTemplate, Documents, ReadOptions};
use reticent_corpus::tokenize::Origin;
use reticent_corpus::{Answers, Document, LossOn, Record, Unit};
use serde_json::{Value, json};
use std::ops::Range;
use std::path::Path;

fn options() -> PrepareOptions {
    PrepareOptions {
        unit: Unit::Document,
        loss_on: Some(LossOn::Assistant),
        redact: false,
        deduplicate: false,
        ..PrepareOptions::default()
    }
}

fn template(source: &str) -> ChatTemplate {
    let settings = json!({"bos_token": "<s>", "eos_token": "</s>"});
    ChatTemplate::new(source.to_owned(), settings.as_object().unwrap()).unwrap()
}

fn said() -> Value {
    json!([
        {"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi, Ada"},
        {"role": "assistant", "content": " Hällo <b>\n"}, {"role": "user", "content": "ok"},
        {"role": "assistant", "content": "Bye."},
    ])
}

/// A byte-level BPE whose merges cross the ends of answers; its ids are those of the sorted alphabet, the merges, the ends.
fn tokenizer() -> Value {
    let plain = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut alphabet: Vec<char> = (0..256)
        .filter(|b| plain(*b))
        .chain(256..256 + 68)
        .filter_map(char::from_u32)
        .collect();
    alphabet.sort_unstable();
    let merges = ["Ġ H", "B y", "By e", "a n", "< |", "| >", "] Ġ", "! ["];
    let words = alphabet.iter().map(ToString::to_string);
    let words = words.chain(merges.iter().map(|pair| pair.replace(' ', "")));
    let vocabulary: serde_json::Map<String, Value> =
        words.zip(0..).map(|(word, id)| (word, json!(id))).collect();
    let end = |(id, content): (u32, &str)| json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "added_tokens": [end((264, "<s>")), end((265, "</s>"))],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    })
}

/// The one record of a chat.
fn record(folder: &Path, source: &str) -> Record {
    record_by(folder, source, &tokenizer())
}

fn record_by(folder: &Path, source: &str, tokenizer: &Value) -> Record {
    let path = folder.join("tokenizer.json");
    std::fs::write(&path, tokenizer.to_string()).unwrap();
    let reading = ReadOptions {
        chat: Some(template(source)),
        loss_on: Some(LossOn::Assistant),
        ..ReadOptions::default()
    };
    let line = json!({ "messages": said() }).to_string();
    let read = Documents::from_bytes(Path::new("chats.jsonl"), line.into_bytes(), &reading);
    let documents: Vec<Document> = read.map(Result::unwrap).collect();
    let options = PrepareOptions {
        tokenizer: TokenizerChoice::File {
            path,
            origin: Origin::DeclaredPublic,
        },
        ..options()
    };
    let mut prepared = prepare(&documents, &options).unwrap();
    assert_eq!(
        prepared.facts.loss_tokens,
        prepared.training.records[0].loss_tokens()
    );
    prepared.training.records.remove(0)
}

/// 1 for each token that is learned.
fn mask(record: &Record) -> String {
    let learned = |at: usize| at > 0 && !record.ignored.iter().any(|r| r.contains(&at));
    let digits = (0..record.tokens.len()).map(|at| if learned(at) { '1' } else { '0' });
    digits.collect()
}

/// By transformers 5.24 (`apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)`) with this
/// tokenizer: ids and masks. Where the template writes no ends the record's own are around them, without loss.
#[test]
fn tokens_and_masks_of_assistants_are_those_of_transformers() {
    let home = tempfile::tempdir().unwrap();
    for (source, ids, expected) in [
        (
            "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>\n{% if m.role == 'assistant' %}{% generation %}{{ m.content + eos_token }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n{% endfor %}",
            "264 260 82 88 82 83 68 76 261 198 33 68 220 74 72 77 67 13 260 84 82 68 81 261 198 39 72 11 220 32 67 64 260 64 82 82 72 82 83 259 83 261 198 256 127 97 75 75 78 220 27 65 29 198 265 260 84 82 68 81 261 198 78 74 260 64 82 82 72 82 83 259 83 261 198 258 13 265",
            "000000000000000000000000000000000000000000011111111111100000000000000000000111",
        ),
        (
            "{%- for m in messages -%}\n  [{{ m.role }}]\n  {%- if m.role == 'assistant' -%}\n    {%- generation -%}\n      {{- m.content | trim }}!\n    {%- endgeneration -%}\n  {%- else %}\n    {{- m.content -}}\n  {%- endif %}\n{%- endfor -%}{{ eos_token }}",
            "58 82 88 82 83 68 76 60 33 68 220 74 72 77 67 13 58 84 82 68 81 60 39 72 11 220 32 67 64 58 64 82 82 72 82 83 259 83 60 39 127 97 75 75 78 220 27 65 29 263 84 82 68 81 60 78 74 58 64 82 82 72 82 83 259 83 60 258 13 0 265",
            "00000000000000000000000000000000000000011111111111000000000000000001110",
        ),
        (
            "{% for m in messages %}{% set n = loop.index %}{% if m.role == 'assistant' %}A{% generation %}{{ n }}{% if loop.last %} last{% endif %}{{ m.content }}{% if not loop.last %}|{% endif %}{% endgeneration %}{% else %}U{{ m.content }}{% endif %}{% endfor %}",
            "52 33 68 220 74 72 77 67 13 52 39 72 11 220 32 67 64 32 18 256 127 97 75 75 78 220 27 65 29 198 91 52 78 74 32 20 220 75 64 82 83 258 13",
            "0000000000000000001111111111111000011111111",
        ),
        (
            "{% for m in messages %}\n{% if m.role == 'assistant' %}\n{%+ generation +%}\n  {{ m.content }}\n{% endgeneration %}\n{% else %}\n{{ m.role }}: {{ m.content }}\n{% endif %}\n{% endfor %}",
            "82 88 82 83 68 76 25 220 33 68 220 74 72 77 67 13 198 84 82 68 81 25 256 72 11 220 32 67 64 198 198 220 220 256 127 97 75 75 78 220 27 65 29 198 198 84 82 68 81 25 220 78 74 198 198 220 220 258 13 198",
            "000000000000000000000000000000111111111111111000000000111111",
        ),
    ] {
        let found = record(home.path(), source);
        let mut tokens: Vec<u32> = ids.split(' ').map(|id| id.parse().unwrap()).collect();
        let mut expected = expected.to_owned();
        if tokens[0] != 264 {
            tokens.insert(0, 264);
            expected.insert(0, '0');
        }
        if tokens.last() != Some(&265) {
            tokens.push(265);
            expected.push('0');
        }
        assert_eq!(found.tokens, tokens, "{source}");
        assert_eq!(mask(&found), expected, "{source}");
    }
}

/// RoBERTa's and GPT-2's post-processors take the space in front of a token out of what the token says it covers.
#[test]
fn offsets_without_spaces_change_no_mask() {
    let home = tempfile::tempdir().unwrap();
    let source = "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %} {{ m.content }} {% endgeneration %}{% else %} {{ m.content }} {% endif %}.{% endfor %}";
    let mut words = tokenizer();
    words["pre_tokenizer"]["use_regex"] = json!(true);
    let whole = record_by(home.path(), source, &words);
    assert!(mask(&whole).contains('1') && mask(&whole)[1..].contains('0'));
    let text = template(source)
        .answers(said().as_array().unwrap(), None)
        .unwrap();
    for processor in [
        json!({"type": "RobertaProcessing", "sep": ["</s>", 265], "cls": ["<s>", 264], "trim_offsets": true, "add_prefix_space": true}),
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}),
    ] {
        words["post_processor"] = processor;
        let cut = record_by(home.path(), source, &words);
        assert_eq!((mask(&cut), &cut.tokens), (mask(&whole), &whole.tokens));
        // The bytes of what is learned are those of the answers.
        let tokenizer = reticent_corpus::tokenize::Tokenizer::load(
            &home.path().join("tokenizer.json"),
            Origin::DeclaredPublic,
        )
        .unwrap();
        let digits = mask(&cut);
        let learned = digits.char_indices().filter(|(_, digit)| *digit == '1');
        let learned: Vec<u32> = learned.map(|(at, _)| cut.tokens[at]).collect();
        let answers: String = text.1.iter().map(|span| &text.0[span.clone()]).collect();
        assert_eq!(tokenizer.decode(&learned).unwrap(), answers);
    }
}

/// A template without blocks teaches what one with blocks does, where it goes on as it began; another one is refused.
#[test]
fn answers_without_blocks_are_found_by_the_beginnings_of_the_conversation() {
    let with = "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>\n{% endgeneration %}{% else %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let without = with
        .replace("{% generation %}", "")
        .replace("{% endgeneration %}", "");
    let messages = said();
    let messages = messages.as_array().unwrap();
    let marked = template(with).answers(messages, None).unwrap();
    assert_eq!(template(&without).answers(messages, None).unwrap(), marked);
    assert_eq!(template(with).render(messages, None).unwrap(), marked.0);
    let texts: Vec<&str> = marked.1.iter().map(|r| &marked.0[r.clone()]).collect();
    assert_eq!(texts, [" Hällo <b>\n<|im_end|>\n", "Bye.<|im_end|>\n"]);
    // The last answer is written in another way than those before it, as reasoning is.
    let thinks = without.replace(
        "{{ m.content }}",
        "{% if loop.last %}hm {% endif %}{{ m.content }}",
    );
    let error = template(&thinks).answers(messages, None).unwrap_err();
    assert!(error.contains("no {% generation %} block"), "{error}");
    // A conversation may begin with an answer, though the template needs a first message; unless something stands before
    // the answer that asks for none.
    let needs = "{% if messages[0].role == 'system' %}{% endif %}".to_owned();
    let greeting = [
        json!({"role": "assistant", "content": "Hello?"}),
        json!({"role": "user", "content": "Hi"}),
    ];
    let marked = template(&(needs.clone() + with))
        .answers(&greeting, None)
        .unwrap();
    let found = template(&(needs.clone() + &without)).answers(&greeting, None);
    assert_eq!(found.unwrap(), marked);
    assert_eq!(&marked.0[marked.1[0].clone()], "Hello?<|im_end|>\n");
    let before = without.replace("{{ m.content }}", "hm {{ m.content }}");
    assert!(
        template(&(needs + &before))
            .answers(&greeting, None)
            .is_err()
    );
    // Nor is a text learned that no template made.
    let options = ReadOptions {
        chat: Some(template(with)),
        loss_on: Some(LossOn::Assistant),
        ..ReadOptions::default()
    };
    for (line, said) in [
        (r#"{"text":"hi"}"#, "line 1: no messages"),
        (
            r#"{"prompt":"a","completion":"b"}"#,
            "line 1: a pair of texts",
        ),
    ] {
        let bytes = line.as_bytes().to_vec();
        let mut read = Documents::from_bytes(Path::new("x.jsonl"), bytes, &options);
        let error = read.next().unwrap().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// The answer of a pair is learned without a template, whatever its characters, and messages need one.
#[test]
fn the_answer_of_a_pair_is_learned() {
    let options = ReadOptions {
        loss_on: Some(LossOn::Assistant),
        ..ReadOptions::default()
    };
    let read = |line: &str| {
        let bytes = line.as_bytes().to_vec();
        let mut read = Documents::from_bytes(Path::new("x.jsonl"), bytes, &options);
        read.next().unwrap()
    };
    for line in [
        r#"{"prompt":"é?","completion":"Ja."}"#,
        r#"{"instruction":"é","input":"?","output":"Ja."}"#,
        r#"{"prompt":[{"role":"user","content":"é"}],"completion":"Ja."}"#,
        r#"{"prompt":"é?","completion":""}"#,
    ] {
        let document = read(line).unwrap();
        let answers = document.answers.unwrap();
        let text = |span: &std::ops::Range<usize>| {
            let characters = document.text.chars().skip(span.start).take(span.len());
            characters.collect::<String>()
        };
        let learned: Vec<String> = answers.spans.iter().map(text).collect();
        let empty = line.contains("\"\"");
        assert_eq!(learned.concat(), if empty { "" } else { "Ja." }, "{line}");
        assert!(answers.end);
    }
    let chat = r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;
    let error = read(chat).unwrap_err().to_string();
    assert!(
        error.contains("no messages under --chat-template"),
        "{error}"
    );
}

/// By transformers 5.24 (`render_jinja_template(…, return_assistant_tokens_mask=True)`) each span; where it marks other text
/// than the block's own, the template is refused.
#[test]
fn blocks_are_marked_where_transformers_marks_them() {
    let messages = [
        json!({"role": "user", "content": "w?"}),
        json!({"role": "assistant", "content": null}),
        json!({"role": "tool", "content": "3"}),
        json!({"role": "assistant", "content": "It is 3."}),
    ];
    let of = |source: &str| {
        let (text, spans) = template(source).answers(&messages, None)?;
        Ok::<_, String>((
            text,
            spans.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>(),
        ))
    };
    let each = |say: &str| {
        format!(
            "{{% for m in messages %}}{{% if m.role == 'assistant' %}}{say}{{% else %}}{{{{ m.role }}}}{{% endif %}}{{% endfor %}}"
        )
    };
    let say = "{% macro say(m) %}{% generation %}{{ m.content }}{% endgeneration %}!{% endmacro %}";
    for (source, text, spans) in [
        // Tags in comments, strings and raw text are none.
        (
            "{# {% generation %} #}{{ '{% generation %}' }}{% raw %}{% generation %}{% endraw %}"
                .to_owned()
                + &each(
                    "{%- generation %}{{ {'a': {'b': '%}'}}.a.b }}{{ m.content }}{% endgeneration -%}",
                ),
            "{% generation %}{% generation %}user%}tool%}It is 3.",
            vec![(36, 38), (42, 52)],
        ),
        (
            say.to_owned() + &each("{{ say(m) }}"),
            "user!toolIt is 3.!",
            vec![(9, 17)],
        ),
        (
            "a{% generation %}b{% generation %}c{% endgeneration %}d{% endgeneration %}e"
                .to_owned(),
            "abcde",
            vec![(1, 4)],
        ),
        (
            "{% set ns = namespace(n=0) %}{% generation %}a{% set ns.n = 1 %}{% endgeneration %}{{ ns.n }}".to_owned(),
            "a1",
            vec![(0, 1)],
        ),
        (
            "x{% set a %}{% generation %}y{% endgeneration %}{% endset %}{{ a }}z".to_owned(),
            "xyz",
            vec![(1, 2)],
        ),
        (
            "x{% filter upper %}{% generation %}y{% endgeneration %}{% endfilter %}".to_owned(),
            "xY",
            vec![(1, 2)],
        ),
        // What stands outside is sliced, set and set again in each turn.
        (
            "{% set s = '##' %}{% for m in messages %}{% if loop.first %}{% set y = 'a' %}{% endif %}{% generation %}{{ y }}{{ m.role[2:] }}{{ s[1:] }}{% set s = s + '!' %}{{ s }}{% endgeneration %}{% endfor %}".to_owned(),
            "aer###!sistant###!ol###!sistant###!",
            vec![(0, 7), (7, 18), (18, 24), (24, 35)],
        ),
    ] {
        assert_eq!(of(&source).unwrap(), (text.to_owned(), spans), "{source}");
    }
    let behind = say.replace("%}{% generation", "%}>{% generation") + &each("{{ say(m) }}");
    for source in [
        behind.as_str(),                                                         // ">It is 3"
        "x{% set a %}{% generation %}y{% endgeneration %}{% endset %}w{{ a }}z", // "w"
        // "w?", the same text as the block's, stands in front of it.
        "{% macro t(m) %}{{ m.content }}{% generation %}{{ m.content }}{% endgeneration %}{% endmacro %}{{ t(messages[0]) }}",
        "{% macro w() %}<{{ caller() }}>{% endmacro %}{% call w() %}{% generation %}x{% endgeneration %}{% endcall %}", // "<"
        "{% set a %}{% generation %}x{% endgeneration %}{% endset %}{{ a | length }}{{ a }}", // "1"
        "{% set a %}{% generation %} x {% endgeneration %}{% endset %}{{ a | trim }}", // three characters of one
    ] {
        let error = of(source).unwrap_err();
        assert!(error.contains("a macro, a variable or a filter"), "{error}");
    }
}

/// The first document with answers at these characters.
fn answering(text: &str, spans: &[Range<usize>], end: bool) -> Document {
    let mut document = corpus(&[text]).remove(0);
    document.answers = Some(Answers {
        spans: spans.to_vec(),
        end,
    });
    document
}

/// One character is one token, `<BOS>` before them.
#[test]
fn answers_move_with_masks_canaries_and_the_end_of_a_record() {
    let masks = |document: Document, options: PrepareOptions| {
        let prepared = prepare(&[document], &options).unwrap();
        let records = prepared.training.records;
        records.iter().map(mask).collect::<Vec<String>>().concat()
    };
    // a mask is learned where a part of it was an answer
    let secret = || answering("a 123 b 456 c 789", &[4..7, 12..13], true);
    let redacted = PrepareOptions {
        policy: numbers(),
        redact: true,
        ..options()
    };
    // <BOS> a _ M _ b _ M _ c _ M <EOS>, where an answer begins inside the first M
    assert_eq!(masks(secret(), redacted), "0001110001001");
    let whole = options();
    assert_eq!(masks(secret(), whole.clone()), "0000011100000100001");
    let cut = PrepareOptions {
        max_tokens: Some(8),
        ..whole
    };
    assert_eq!(masks(secret(), cut), "00000111");
    // a literal special is escaped by one more character in front of what is learned
    let literal = answering("<MASK> x", &[7..8], false);
    assert_eq!(masks(literal, options()), "00000000010");
    let planted = PrepareOptions {
        canaries: Some(CanaryOptions::new("1x1".parse().unwrap())),
        ..options()
    };
    let document = answering("one\ntwo\nthree", &[4..7], false);
    let prepared = prepare(&[document], &planted).unwrap();
    let record = &prepared.training.records[0];
    let learned: String = mask(record)
        .chars()
        .skip(1)
        .zip(prepared.texts[0].chars())
        .filter_map(|(digit, c)| (digit == '1').then_some(c))
        .collect();
    let line = &prepared.plan.unwrap().canaries[0].insertions[0].text;
    assert!(
        learned.contains("two") && learned.contains(line.as_str()),
        "{learned}"
    );
    assert!(!learned.contains("one") && !learned.contains("three"));
}

#[test]
fn folders_keep_what_carries_no_loss_and_check_it() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("prepared");
    let documents: Vec<Document> = (0..4)
        .map(|i| Document {
            id: format!("d{i}"),
            ..answering("ask me twice", &[4..6], false)
        })
        .collect();
    let held = PrepareOptions {
        held_out: 0.25,
        ..options()
    };
    let prepared = prepare(&documents, &held).unwrap();
    assert_eq!(
        (prepared.facts.loss_tokens, prepared.facts.held_out_tokens),
        (6, 2)
    );
    prepared.write(&folder, false, None).unwrap();
    let again = Prepared::load(&folder, None).unwrap();
    assert_eq!(again.training, prepared.training);
    assert_eq!(again.held_out, prepared.held_out);
    assert_eq!(again.held_out[0].ignored, [1..5, 7..14]);
    let path = folder.join("records.jsonl");
    let written = std::fs::read_to_string(&path).unwrap();
    for (from, to, problem) in [
        ("\"end\":14", "\"end\":15", "ignored range 7..15"),
        (
            "\"start\":7",
            "\"start\":8",
            "tokens that carry loss: 7, expected 6",
        ),
    ] {
        std::fs::write(&path, written.replacen(from, to, 1)).unwrap();
        let error = Prepared::load(&folder, None).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    // As many tokens, others.
    let shifted = written.replacen("\"end\":5", "\"end\":4", 1);
    let shifted = shifted.replacen("\"start\":7", "\"start\":6", 1);
    std::fs::write(&path, shifted).unwrap();
    let error = Prepared::load(&folder, None).unwrap_err().to_string();
    assert!(error.contains("its id is not that of its text"), "{error}");
    std::fs::write(&path, &written).unwrap();
    let facts = folder.join("prepared.json");
    let sheet = std::fs::read_to_string(&facts).unwrap();
    std::fs::write(&facts, sheet.replace("\"assistant\"", "null")).unwrap();
    let error = Prepared::load(&folder, None).unwrap_err().to_string();
    assert!(error.contains("nothing asks for them"), "{error}");
    // Where every token carries loss, the records do not say whether that was asked for.
    for (requested, from, to) in [
        (options(), "\"assistant\"", "null"),
        (
            PrepareOptions {
                loss_on: None,
                ..options()
            },
            "\"options\": {",
            "\"options\": { \"loss_on\": \"assistant\",",
        ),
    ] {
        let place = home
            .path()
            .join(format!("all-{}", requested.loss_on.is_some()));
        let mut document = answering("all of it", &[0..9], true);
        document.answers = document.answers.filter(|_| requested.loss_on.is_some());
        prepare(&[document], &requested)
            .unwrap()
            .write(&place, false, None)
            .unwrap();
        Prepared::load(&place, None).unwrap();
        let facts = place.join("prepared.json");
        let sheet = std::fs::read_to_string(&facts).unwrap();
        let forged = sheet.replacen(from, to, 1);
        assert_ne!(sheet, forged);
        std::fs::write(&facts, forged).unwrap();
        let error = Prepared::load(&place, None).unwrap_err().to_string();
        assert!(error.contains("options.loss_on"), "{error}");
    }
    // Text without answers where they are asked for, and the other way round.
    let error = prepare(&corpus(&["x"]), &options())
        .unwrap_err()
        .to_string();
    assert!(error.contains("no conversation"), "{error}");
    let plain = PrepareOptions {
        loss_on: None,
        ..options()
    };
    let error = prepare(&documents, &plain).unwrap_err().to_string();
    assert!(error.contains("nothing asks for loss"), "{error}");
    let turns = PrepareOptions {
        unit: Unit::Turn,
        ..options()
    };
    assert!(
        turns
            .validate()
            .unwrap_err()
            .to_string()
            .contains("must be document")
    );
}

//! Chat templates beside transformers 5.24 (`render_jinja_template`), by which every text here was made.

use reticent_corpus::read::{ChatTemplate, Documents, ReadOptions};
use serde_json::{Map, Value, json};
use std::path::Path;

fn messages() -> Vec<Value> {
    let message = |role: &str, content: &str| json!({"role": role, "content": content});
    vec![
        message("system", "Be brief."),
        message("user", " Hi\nthere "),
        message("assistant", "Hello"),
        message("user", "a,b,c"),
        message("assistant", "Bye"),
    ]
}

fn written(source: &str) -> Result<String, String> {
    ChatTemplate::new(source.to_owned(), &Map::new())?.render(&messages(), None)
}

fn same(cases: &[(&str, &str)]) {
    for (source, text) in cases {
        assert_eq!(written(source).as_deref(), Ok(*text), "{source}");
    }
}

#[test]
fn macros_and_blocks_see_the_variables_that_those_of_jinja_see() {
    same(&[
        (
            "{% set messages = messages[1:] %}{% macro f() %}{{ messages[1:] | length }}{% endmacro %}{{ f() }}",
            "3",
        ),
        (
            "{% set x = messages[1:] %}{% macro f() %}{% for m in x[1:] %}{{ m.role }},{% endfor %}{% endmacro %}{{ f() }}",
            "assistant,user,assistant,",
        ),
        (
            "{% set x = 1 %}{% macro f() %}{% set x = x + 1 %}{{ x }}{% endmacro %}{{ f() }}{{ f() }}{{ x }}",
            "221",
        ),
        (
            "{% set ns = namespace(n=0) %}{% macro f() %}{% set ns.n = 5 %}{% endmacro %}{{ f() }}{{ ns.n }}",
            "5",
        ),
        (
            "{% set x = 'abc' %}{% macro f() %}{% with x = x %}{{ x }}{% endwith %}{% endmacro %}{{ f() }}",
            "abc",
        ),
        (
            "{% set a = 'a' %}{% set b='b' %}{% macro f(t) %}{% filter replace(a, b) %}{{ t }}{% endfilter %}{% endmacro %}{{ f('aaa') }}",
            "bbb",
        ),
        (
            "{% set a = 'a' %}{% macro f(t) %}{% set y | replace(a, 'b') %}{{ t }}{% endset %}{{ y }}{% endmacro %}{{ f('aaa') }}",
            "bbb",
        ),
        (
            "{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}{% set x = 2 %}{{ f() }}",
            "12",
        ),
        (
            "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}G{{ z[1:] }}{% endmacro %}{% set z='xyz' %}{{ f() }}",
            "Gyz",
        ),
        (
            "{% macro w(t) %}<{{ t }}{{ caller() }}>{% endmacro %}{% set s = 'hello' %}{% call w(1) %}{{ s[1:3] }}{% endcall %}",
            "<1el>",
        ),
        (
            "{% macro w(t) %}<{{ caller(t) }}>{% endmacro %}{% set s = 'hello' %}{% call(n) w(1) %}{{ s[n:] }}{{ n }}{% endcall %}",
            "<ello1>",
        ),
        (
            "{% macro w() %}<{{ caller() }}>{% endmacro %}{% for m in messages %}{% if loop.first %}{% set y = 'a' %}{% endif %}{% call w() %}{{ y }}{{ m.role[1:] }}{{ loop.index }}{% endcall %}{% endfor %}",
            "<aystem1><ser2><ssistant3><ser4><ssistant5>",
        ),
        (
            "{% for m in messages %}{% if loop.first %}{% set y = 'a' %}{% endif %}{% macro w() %}{{ y }}{{ m.role[1:] }}{% endmacro %}{{ w() }}{% endfor %}",
            "aystemserssistantserssistant",
        ),
        (
            "{% for m in messages %}{% macro w() %}{{ y }}{{ m.role }}{% endmacro %}{% if loop.first %}{% set y = 'a' %}{% endif %}{{ w() }}{% endfor %}",
            "asystemuserassistantuserassistant",
        ),
        (
            "{% macro w() %}<{{ caller() }}>{% endmacro %}{% set s=1 %}{% call w() %}{% set s = s + 1 %}{{ s }}{% endcall %}{{ s }}",
            "<2>1",
        ),
        (
            "{% macro inner() %}[{{ caller() }}]{% endmacro %}{% macro outer() %}{% set c = caller() %}{% call inner() %}{{ c }}{% endcall %}{% endmacro %}{% call outer() %}x{% endcall %}",
            "[x]",
        ),
    ]);
}

#[test]
fn macros_take_their_defaults_as_those_of_jinja_do() {
    same(&[
        (
            "{% macro f(x, y='d') %}{{ x }}{{ y }}{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(1, y=3) }}",
            "1d1213",
        ),
        (
            "{% macro f(x, y='d') %}{{ x }}{{ y }}{% endmacro %}{{ f(1, nothing) }}",
            "1",
        ),
        (
            "{% macro f(x, y='d') %}{{ x }}{{ y }}{% endmacro %}{{ f(nothing) }}",
            "d",
        ),
        (
            "{% macro f(x, y='d') %}{{ x }}{{ y }}{% endmacro %}{{ f(x=1, y=messages[0].nothing) }}",
            "1",
        ),
        (
            "{% macro f(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ f(1) }}",
            "11",
        ),
        (
            "{% macro f(x, y='d', z=x) %}{{ x }}{{ y }}{{ z }}|{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(1, z=3) }}{{ f(x=1, y=nothing) }}{{ f(1, nothing, 4) }}",
            "1d1|121|1d3|11|14|",
        ),
        (
            "{% macro f(y='a)b', z=(1, 2), w={'a': [1, ')']}, v='=,') %}{{ y }}{{ z }}{{ w }}{{ v }}{% endmacro %}{{ f() }}{{ f(w=1) }}",
            "a)b(1, 2){'a': [1, ')']}=,a)b(1, 2)1=,",
        ),
        (
            "{% macro f(y=1) %}{{ y }}{{ caller() }}{% endmacro %}{% call f() %}x{% endcall %}{% call f(2) %}x{% endcall %}{% call f(y=3) %}x{% endcall %}",
            "1x2x3x",
        ),
        (
            "{% macro f(x, y=none, z=true) %}{{ x }}{{ y }}{{ z }}{% endmacro %}{{ f(1) }}{{ f(1,z=nothing) }}{{ f() }}",
            "1NoneTrue1NoneNoneTrue",
        ),
        (
            "{% set d = 5 %}{% macro f(y=d) %}{{ y }}{% endmacro %}{% set d = 6 %}{{ f() }}",
            "6",
        ),
        (
            "{% macro f(n, acc='') %}{% if n %}{{ f(n - 1, acc ~ n) }}{% else %}{{ acc }}{% endif %}{% endmacro %}{{ f(3) }}",
            "321",
        ),
        (
            "{% macro f( x ,y = 'd' ) -%}\n {{ x }}{{ y }}\n{%- endmacro -%}\n{{ f(1) }}",
            "1d",
        ),
        (
            "{% macro f(x, y=g()) %}{{ x }}{{ y }}{% endmacro %}{% macro g(q=messages[0].role) %}{{ q }}{% endmacro %}{{ f(1) }}",
            "1system",
        ),
    ]);
}

#[test]
fn tuples_views_and_whole_numbers_are_those_of_python() {
    same(&[
        ("{{ (1, 2) }}", "(1, 2)"),
        ("{{ (1,) }}", "(1,)"),
        ("{{ () }}", "()"),
        ("{{ ((1,'a'),[2]) }}", "((1, 'a'), [2])"),
        (
            "{{ messages[0].items() }}",
            "dict_items([('role', 'system'), ('content', 'Be brief.')])",
        ),
        (
            "{{ messages[0].items() | list }}",
            "[('role', 'system'), ('content', 'Be brief.')]",
        ),
        ("{{ messages[0].keys() }}", "dict_keys(['role', 'content'])"),
        (
            "{{ messages[0].values() | list }}",
            "['system', 'Be brief.']",
        ),
        (
            "{{ messages[0] | dictsort }}",
            "[('content', 'Be brief.'), ('role', 'system')]",
        ),
        ("{{ (1,2) + (3,) }}", "(1, 2, 3)"),
        ("{{ (1,2,3)[1:] }}", "(2, 3)"),
        ("{{ (1,2) | tojson }}", "[1, 2]"),
        ("{{ (1,2) == [1,2] }}", "False"),
        ("{{ 'a' ~ (1,) }}", "a(1,)"),
        ("{{ messages[0].items() is sequence }}", "False"),
        ("{{ messages[1:] is sequence }}", "True"),
        ("{{ messages[0].items() | first }}", "('role', 'system')"),
        ("{{ {'a': (1,2)} }}", "{'a': (1, 2)}"),
        ("{{ 18446744073709551616 + 1 }}", "18446744073709551617"),
        ("{{ 2 ** 100 }}", "1267650600228229401496703205376"),
        ("{{ (2 ** 63) | tojson }}", "9223372036854775808"),
        (
            "{{ '99999999999999999999999' | int }}",
            "99999999999999999999999",
        ),
        ("{{ 'x' | int(5) }}", "5"),
        ("{{ '1.9' | int }}", "1"),
        ("{{ none | int }}", "0"),
        ("{{ 1e30 | int }}", "1000000000000000019884624838656"),
        ("{{ true | int }}", "1"),
        ("{{ 'a\\r\\nb\\x0bc\\n'.splitlines() }}", "['a', 'b', 'c']"),
        ("{{ 'abc'.startswith(('x','a')) }}", "True"),
        ("{{ 'abc'.partition('b') }}", "('a', 'b', 'c')"),
        ("{{ 'a b c'.split(sep=' ') }}", "['a', 'b', 'c']"),
    ]);
}

/// By Jinja2 3.1.6.
#[test]
fn ranges_entities_and_titles_are_those_of_jinja() {
    same(&[
        (
            "{{ range(3) }} {{ [range(1, 3)] }} {{ range(9, 0, -2) ~ '' }} {{ range(0, 4, 2) | string }} {{ range(-3) }}",
            "range(0, 3) [range(1, 3)] range(9, 0, -2) range(0, 4, 2) range(0, -3)",
        ),
        (
            "{{ range(3) | list }}{{ range(9, 0, -2)[1:] | list }}{{ range(3)[-1] }}{{ 2 in range(3) }}{{ range(3) is sequence }}{{ range(3) | length }}{{ range(3) | reverse | list }}",
            "[0, 1, 2][7, 5, 3, 1]2TrueTrue3[2, 1, 0]",
        ),
        (
            "{% for i in range(3, 1, -1) %}{{ i }}{{ loop.length }}{% endfor %}{% if range(0) %}a{% else %}b{% endif %}",
            "3222b",
        ),
        (
            "{{ '<a href=\"x\">&\\'' | e }} {{ '<' | escape | e }} {{ 5 | e }}{{ nothing | e }} {{ ['\"'] | e }}",
            "&lt;a href=&#34;x&#34;&gt;&amp;&#39; &lt; 5 [&#39;&#34;&#39;]",
        ),
        (
            "{%- set v = {'a': '<'} | tojson | safe if 1 is number or (1 is sequence and 2 is not string) else 'x' | string %}{{- v }}",
            "{\"a\": \"<\"}",
        ),
        (
            "{{- '<' ~ 'k' ~ '>' ~ ({'a': '<'} | tojson | safe) ~ '</' ~ 'k' ~ '>' }}",
            "<k>{\"a\": \"<\"}</k>",
        ),
        (
            "{% if 'user' | safe == 'user' %}u{% endif %}{% set x = '<' | e %}{{ x ~ '<' }}",
            "u&lt;<",
        ),
        (
            "{{ 'hELLO-wORLD (x) it\\'s 3rd あa ßa' | title }} {{ 'hELLO-wORLD (x) it\\'s 3rd あa ßa ǆa'.title() }}",
            "Hello-World (X) It's 3rd あa SSa Hello-World (X) It'S 3Rd あA Ssa ǅa",
        ),
        (
            "{{ 'ΑΣ ΑΣΑ'.title() }} {{ 'ΑΣ' | title }} {{ 'ΑΣ'.capitalize() }} {{ 'ΑΣ' | capitalize }} {{ 'ßa'.capitalize() }} {{ 'ბa'.capitalize() }} {{ none | title }}",
            "Ας Ασα Ασ Ας Ας Ssa ბa None",
        ),
    ]);
}

/// What would be another text than transformers' says what it is, and where.
#[test]
fn what_jinja_writes_otherwise_is_refused_in_words() {
    for (source, words) in [
        (
            "{{ '99999999999999999999999999999999999999999' | int }}",
            "in line 1: it reads a whole number beyond 128 bits",
        ),
        (
            "\n{{ 2 ** 200 }}",
            "in line 2: it divides by zero, or computes a whole number beyond 128 bits",
        ),
        ("{{ 1 // 0 }}", "it divides by zero"),
        (
            "{{ '%r' | format(messages[3].content) }}",
            "in line 1: it computes or writes what its values don't allow",
        ),
        ("{{ range(1, 100003) }}", "a range of more than 100000"),
        ("{{ range(1, 2, 0) }}", "a range of step 0"),
        ("{{ range(5)[1:3] }}", "a range by a slice"),
        (
            "{% set r = range(5) %}{% set s = r[1:] %}{{ s }}",
            "a range by a slice",
        ),
        (
            "{% if range(1, 3) == [1, 2] %}x{% endif %}",
            "compares a range",
        ),
        (
            "{% set r = range(2) %}{{ [0, 1] != r }}",
            "compares a range",
        ),
        (
            "{{ messages[0].content | e + '<' }}",
            "marks a text as HTML",
        ),
        (
            "{{ '<' + messages[0].content | e }}",
            "marks a text as HTML",
        ),
        (
            "{% set x = messages[0].content | escape %}{{ x + '<' }}",
            "marks a text as HTML",
        ),
        ("{{ ('a' | e).replace('a', '<') }}", "marks a text as HTML"),
        ("{{ 'a' | e | upper | e }}", "marks a text as HTML"),
        ("{{ ['a' | safe] }}", "marks a text as HTML"),
        ("{{ messages[0].items }}", "reads .items"),
        (
            "{% if messages[0]['a'].values is defined %}x{% endif %}",
            "reads .values",
        ),
        ("{{ (2 ** 64) | tojson }}", "a whole number beyond 64 bits"),
        (
            "{{ messages[0].content - 1 }}",
            "tried to use - operator on unsupported types string and number",
        ),
        (
            "{{ messages[0].content.zfill(3) }}",
            "string has no method named zfill",
        ),
        (
            "{% macro f() %}{{ varargs }}{% endmacro %}{{ f(1) }}",
            "varargs or kwargs",
        ),
        (
            "{% macro w() %}{{ caller(1) }}{% endmacro %}{% call(a, b=2) w() %}{{ a }}{% endcall %}",
            "{% call %} block",
        ),
        (
            "{% macro f(y=1) %}{% endmacro %}{{ f }}",
            "a macro or a function",
        ),
        (
            "{% macro f() %}{% endmacro %}{{ [f] }}",
            "a macro or a function",
        ),
        (
            "{% autoescape true %}{{ '<' }}{% endautoescape %}",
            "{% autoescape %}",
        ),
        ("{{ 'a\\vb' }}", "an escape that is not read here"),
        (
            "\n{{ raise_exception('no ' ~ messages[3].content) }}",
            "fails in line 2: it refuses the conversation (raise_exception)",
        ),
    ] {
        let error = written(source).unwrap_err();
        assert!(
            error.contains(words) && !error.contains("a,b,c"),
            "{source}: {error}"
        );
    }
    let source = "{{ messages[0].n }}{{ messages[0].n ~ '' if messages[0].joined }}";
    let template = ChatTemplate::new(source.to_owned(), &Map::new()).unwrap();
    for (number, joined, refused) in [
        (2.5, true, false),
        (1e16, true, true),
        (1e16, false, false),
        (1e-5, true, true),
    ] {
        let message = json!({"role": "user", "n": number, "joined": joined});
        let made = template.render(&[message], None);
        assert_eq!(
            made.is_err_and(|error| error.contains("in quotes")),
            refused,
            "{number}"
        );
    }
    // Each macro knows every name.
    let many: String = (0..6000)
        .map(|n| format!("{{% set name{n} = 1 %}}{{% macro m{n}() %}}{{% endmacro %}}"))
        .collect();
    let error = written(&many).unwrap_err();
    assert!(error.contains("too many macros"), "{error}");
    // By Jinja2 3.1.6: a call is one of the method, whatever keys there are.
    same(&[
        (
            "{% set d = {'items': 1, 'get': 2} %}{{ d.items() | list }}{{ d.get('get') }}{{ d['items'] }}{{ d.keys() | length }}",
            "[('items', 1), ('get', 2)]212",
        ),
        (
            "{% set ns = namespace(items=[]) %}{% set ns.items = ns.items + [1] %}{{ ns.items }}{{ 'x.items' }}",
            "[1]x.items",
        ),
        (
            "{% for i in range(5)[::-1] %}{{ i }}{% endfor %}{% set r = range(3) | list %}{{ r[1:] == [1, 2] }}",
            "43210True",
        ),
        (
            "{{ '<b>' ~ '<' | e ~ '</b>' }}{{ '<' | e if true else '>' }}{% filter e %}<{% endfilter %}",
            "<b>&lt;</b>&lt;&lt;",
        ),
    ]);
    // Text that is no string of the template has any escape.
    same(&[("\\alpha {# '\\a' #}{{ 'b' }}", "\\alpha b")]);
}

/// Whoever names a template expects it to make every text.
#[test]
fn a_text_of_its_own_is_refused_where_a_template_is_named() {
    let said = "{\"role\":\"user\",\"content\":\"x\"}";
    for (name, text, refused) in [
        ("x.jsonl", "{\"text\":\"a\"}".to_owned(), true),
        (
            "x.jsonl",
            format!("{{\"text\":\"a\",\"messages\":[{said}]}}"),
            true,
        ),
        ("x.jsonl", format!("{{\"messages\":[{said}]}}"), false),
        (
            "x.jsonl",
            "{\"prompt\":\"a\",\"completion\":\"b\"}".to_owned(),
            true,
        ),
        (
            "x.jsonl",
            format!("{{\"prompt\":[{said}],\"completion\":[{said}]}}"),
            false,
        ),
        ("x.csv", "text\na\n".to_owned(), true),
        ("x.txt", "a\n".to_owned(), true),
    ] {
        let chat = ChatTemplate::new("{{ messages[0].content }}".to_owned(), &Map::new());
        let options = ReadOptions {
            chat: Some(chat.unwrap()),
            ..ReadOptions::default()
        };
        let mut read = Documents::from_bytes(Path::new(name), text.clone().into_bytes(), &options);
        let found = read.next().unwrap();
        let said = found.is_err_and(|error| error.to_string().contains("no chat template changes"));
        assert_eq!(said, refused, "{name}: {text}");
    }
}

/// A parser without these would read another number, and a template write it.
#[test]
fn whole_numbers_beyond_64_bits_are_refused_where_a_template_sees_them() {
    let chat = ChatTemplate::new("{{ messages[0].n }}".to_owned(), &Map::new()).unwrap();
    let line = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"n\":18446744073709551616}]}";
    for (name, text) in [
        ("x.jsonl", line.to_owned()),
        ("x.json", format!("[{line}]")),
    ] {
        for (chat, refused) in [(Some(chat.clone()), true), (None, false)] {
            let options = ReadOptions {
                chat,
                ..ReadOptions::default()
            };
            let mut read =
                Documents::from_bytes(Path::new(name), text.clone().into_bytes(), &options);
            let found = read.next().unwrap();
            let said = found.is_err_and(|error| error.to_string().contains("beyond 64 bits"));
            assert_eq!(said, refused, "{name}");
        }
    }
}

//! The claims of the papers and how each is judged, fixed before the first recorded run.

use super::rules::{Need, Rule};

/// A claim of a paper.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Its name, unique among the claims of the paper.
    pub id: &'static str,
    /// The table, figure or section, as named in `--only`.
    pub item: &'static str,
    /// The claim itself.
    pub says: &'static str,
    /// The value that the paper prints.
    pub printed: &'static str,
    /// How it is judged.
    pub test: Test,
}

/// How a claim is judged.
#[derive(Debug, Clone, Copy)]
pub enum Test {
    /// By a rule on the measurements, if the needs are met.
    By(Rule, &'static [Need]),
    /// Not testable at the small scale, for this reason.
    Open(&'static str),
}

const fn claim(
    item: &'static str,
    id: &'static str,
    says: &'static str,
    printed: &'static str,
    test: Test,
) -> Claim {
    Claim {
        id,
        item,
        says,
        printed,
        test,
    }
}

const fn by(rule: Rule) -> Test {
    Test::By(rule, &[])
}

const fn at_most(what: &'static str, of: &'static str, times: f64) -> Rule {
    Rule::AtMost { what, of, times }
}

const fn least(what: &'static str, from: f64) -> Rule {
    Rule::Within {
        what,
        from,
        to: f64::INFINITY,
    }
}

const fn most(what: &'static str, to: f64) -> Rule {
    Rule::Within {
        what,
        from: f64::NEG_INFINITY,
        to,
    }
}

const fn between(what: &'static str, from: f64, to: f64) -> Rule {
    Rule::Within { what, from, to }
}

const fn is(what: &'static str, value: f64, within: f64) -> Rule {
    Rule::Is {
        what,
        value,
        within,
    }
}

/// The bound, in bits, that the largest of ten exposures stays below with probability 0.95 if
/// nothing leaked.
const NULL: f64 = 7.61;
/// How much accuracies of guessing may differ from one half by chance in samples of this size.
const NEAR_HALF: f64 = 0.05;

const fn learned(what: &'static str, of: &'static str) -> Need {
    Need::Learned { what, of }
}

const fn heard(what: &'static str, above: f64) -> Need {
    Need::Heard { what, above }
}

const fn tells(what: &'static str, of: &'static str) -> Need {
    Need::Tells { what, of }
}

/// JFT's four detectors by the names of their policies, in the order of their levels.
pub(super) const DETECTORS: [&str; 4] = [
    "low-entity",
    "high-entity",
    "low-contextual",
    "high-contextual",
];

/// The shares of tokens for the four detectors in JFT's Table 2, by text.
pub(super) const PRINTED_SHARES: [(&str, [f64; 4]); 6] = [
    ("WikiText-2", [0.113, 0.164, 0.348, 0.450]),
    ("ABCD", [0.027, 0.031, 0.223, 0.286]),
    ("MNLI", [0.0609, 0.0863, 0.3119, 0.4427]),
    ("QQP", [0.0605, 0.0830, 0.3261, 0.4593]),
    ("QNLI", [0.1219, 0.1718, 0.3568, 0.4559]),
    ("SST-2", [0.0179, 0.0301, 0.2219, 0.3813]),
];

/// Zhao, Li and Wang 2022.
pub(super) const CRT: &[Claim] = &[
    claim(
        "fig2",
        "utility-of-crt",
        "CRT predicts nearly as well as ordinary training",
        "curves close together",
        by(at_most("perplexity of CRT", "perplexity of SGD", 1.2)),
    ),
    claim(
        "fig2",
        "utility-of-dpsgd",
        "DP-SGD predicts far worse than CRT",
        "far above",
        by(at_most(
            "perplexity of CRT",
            "perplexity of DP-SGD",
            1.0 / 1.5,
        )),
    ),
    claim(
        "fig2",
        "epsilon-of-epochs",
        "ε grows with the epochs",
        "each point an epoch",
        by(Rule::Rises("ε of CRT over the steps")),
    ),
    claim(
        "fig3",
        "sgd-leaks",
        "ordinary training leaks canaries that the policy misses (γ from 0.1 on)",
        "up to 19 bits",
        by(least("exposure of SGD where canaries are missed", NULL)),
    ),
    claim(
        "fig3",
        "sgd-rises",
        "its exposure rises with γ",
        "rises",
        by(Rule::Rises("mean exposure of SGD")),
    ),
    claim(
        "fig3",
        "sgd-masked",
        "at γ = 0 it leaks nothing",
        "near 0",
        Test::By(
            most("exposure of SGD at γ = 0", NULL),
            &[heard("exposure of SGD", NULL)],
        ),
    ),
    claim(
        "fig3",
        "sdp-leaks",
        "S-DP leaks canaries that the policy misses",
        "as ordinary training",
        Test::By(
            least("exposure of S-DP where canaries are missed", NULL),
            &[learned("perplexity of S-DP", "perplexity of SGD")],
        ),
    ),
    claim(
        "fig3",
        "crt-silent",
        "CRT leaks nothing at any γ",
        "near 0",
        Test::By(
            most("exposure of CRT", NULL),
            &[
                learned("perplexity of CRT", "perplexity of SGD"),
                heard("exposure of SGD", NULL),
            ],
        ),
    ),
    claim(
        "fig3",
        "dpsgd-silent",
        "DP-SGD leaks nothing at any γ",
        "near 0",
        Test::By(
            most("exposure of DP-SGD", NULL),
            &[
                learned("perplexity of DP-SGD", "perplexity of SGD"),
                heard("exposure of SGD", NULL),
            ],
        ),
    ),
    claim(
        "fig3",
        "gpt",
        "a fine-tuned GPT behaves alike",
        "near 0 for CRT, up to 19 bits without",
        Test::Open(
            "no pretrained GPT is at hand, and a fresh one of a size for two cores learns too little of this text; `--scale paper --model DIR` takes one",
        ),
    ),
    claim(
        "fig4",
        "crt-membership",
        "membership inference against CRT guesses",
        "near 0.5",
        Test::By(
            between("accuracy on CRT", 0.5 - NEAR_HALF, 0.5 + NEAR_HALF),
            &[
                learned("perplexity of CRT", "perplexity of SGD"),
                heard("accuracy on SGD", 0.5 + NEAR_HALF),
            ],
        ),
    ),
    claim(
        "fig4",
        "sgd-membership",
        "against ordinary training it succeeds more with γ",
        "from 0.5 to about 0.9",
        by(Rule::Rises("accuracy on SGD")),
    ),
    claim(
        "fig4",
        "sdp-membership",
        "against S-DP too",
        "surges above 0.5",
        Test::By(
            Rule::Rises("accuracy on S-DP"),
            &[learned("perplexity of S-DP", "perplexity of SGD")],
        ),
    ),
    claim(
        "fig5",
        "groups-tell-more",
        "groups of 20 tell more than single sentences",
        "above Figure 4",
        Test::By(
            at_most("area on SGD", "area of groups on SGD", 1.0),
            &[heard("area of groups on SGD", 0.5 + NEAR_HALF)],
        ),
    ),
    claim(
        "fig5",
        "crt-groups",
        "groups against CRT guess",
        "near 0.5",
        Test::By(
            between("area of groups on CRT", 0.4, 0.6),
            &[
                learned("perplexity of CRT", "perplexity of SGD"),
                heard("area of groups on SGD", 0.6),
            ],
        ),
    ),
    claim(
        "fig6",
        "amplified",
        "redaction amplifies ε = 1 at γ = 0.1 and δ = 8e-5",
        "0.12",
        by(between("ε′ of Figure 6", 0.1, 0.125)),
    ),
    claim(
        "fig6",
        "amplified-over-miss",
        "ε′ grows with γ",
        "grows",
        by(Rule::Rises("ε′ over γ")),
    ),
    claim(
        "fig6",
        "notebook",
        "the authors' notebook: ε′ at σ 2.42632, q 0.1, 100 steps, δ 1e-5, γ 0.1",
        "0.374388",
        by(is("ε′ of the notebook, by Rényi", 0.374_388, 0.005)),
    ),
    claim(
        "a4",
        "recall",
        "200 labels show a recall of 100 % of the conservative policy",
        "100 %",
        by(least(
            "recall after 200 labels without a miss, at 95 %",
            1.0,
        )),
    ),
];

/// Shi et al. 2022.
pub(super) const JFT: &[Claim] = &[
    claim(
        "table1",
        "levels",
        "the four levels mask more and more",
        "11.3, 16.4, 34.8, 45.0 % (WikiText-2)",
        by(Rule::Ordered(&[
            "masked at low entity",
            "masked at high entity",
            "masked at low contextual",
            "masked at high contextual",
        ])),
    ),
    claim(
        "table1",
        "shares-wikitext",
        "each masks what the paper says of WikiText-2, within a factor of 2 (wikitext-2-raw/valid.txt.gz of --data)",
        "11.3, 16.4, 34.8, 45.0 %",
        by(between(
            "share masked of WikiText-2 over the paper's",
            0.5,
            2.0,
        )),
    ),
    claim(
        "table1",
        "shares-abcd",
        "and of ABCD (abcd/valid.txt.gz of --data)",
        "2.7, 3.1, 22.3, 28.6 %",
        by(between("share masked of ABCD over the paper's", 0.5, 2.0)),
    ),
    claim(
        "table2-generation",
        "redacted-levels",
        "a model of redacted text predicts the worse, the more is masked",
        "22.50, 24.32, 37.90, 54.29",
        by(Rule::Ordered(&[
            "perplexity of redacted at low entity",
            "perplexity of redacted at high entity",
            "perplexity of redacted at low contextual",
            "perplexity of redacted at high contextual",
        ])),
    ),
    claim(
        "table2-generation",
        "no-dp-below-jft",
        "ordinary training predicts better than JFT",
        "20.48 against 21.86",
        by(Rule::Ordered(&[
            "perplexity of No-DP",
            "perplexity of JFT at low entity",
        ])),
    ),
    claim(
        "table2-generation",
        "jft-below-dpsgd",
        "JFT predicts better than DP-SGD",
        "21.86 against 27.05 and 30.32",
        by(Rule::Ordered(&[
            "perplexity of JFT at low entity",
            "perplexity of DP-SGD",
        ])),
    ),
    claim(
        "table2-generation",
        "jft-low-contextual",
        "the second phase improves on redacted text at the low contextual level",
        "25.62 against 37.90",
        by(Rule::Ordered(&[
            "perplexity of JFT at low contextual",
            "perplexity of redacted at low contextual",
        ])),
    ),
    claim(
        "table2-generation",
        "jft-high-contextual",
        "and at the high contextual level",
        "27.19 against 54.29",
        by(Rule::Ordered(&[
            "perplexity of JFT at high contextual",
            "perplexity of redacted at high contextual",
        ])),
    ),
    claim(
        "table2-glue",
        "mnli",
        "ε on MNLI, noise found by Rényi for 3",
        "2.75",
        by(is("ε on MNLI", 2.75, 0.005)),
    ),
    claim(
        "table2-glue",
        "qnli",
        "ε on QNLI",
        "2.57",
        by(is("ε on QNLI", 2.57, 0.005)),
    ),
    claim(
        "table2-glue",
        "sst2",
        "ε on SST-2",
        "2.41",
        by(is("ε on SST-2", 2.41, 0.005)),
    ),
    claim(
        "table2-classes",
        "accuracy",
        "JFT classifies sentences better than DP-SGD at the same noise (a small encoder drawn at random, made-up turns and their acts)",
        "85.74 against 82.10 (MNLI)",
        Test::By(
            Rule::Ordered(&[
                "accuracy of a classifier by DP-SGD",
                "accuracy of a classifier by JFT",
            ]),
            &[tells(
                "accuracy of a classifier by JFT",
                "share of the most frequent class",
            )],
        ),
    ),
    claim(
        "table2-classes",
        "accuracy-no-dp",
        "and worse than ordinary training",
        "85.74 against 87.60 (MNLI)",
        Test::By(
            Rule::Ordered(&[
                "accuracy of a classifier by JFT",
                "accuracy of a classifier by No-DP",
            ]),
            &[tells(
                "accuracy of a classifier by JFT",
                "share of the most frequent class",
            )],
        ),
    ),
    claim(
        "table2-classes",
        "glue",
        "the same on GLUE with a pretrained encoder",
        "85.74, 88.19, 89.57, 92.09 against 82.10, 85.41, 84.62, 86.12",
        Test::Open(
            "GLUE and RoBERTa can't be shipped; `benches/classifiers.sh` runs MultiWOZ's domains with an encoder that is drawn at random",
        ),
    ),
    claim(
        "table3",
        "light-noise",
        "light noise in the first phase predicts better than DP-SGD",
        "25.21 against 27.05",
        by(Rule::Ordered(&[
            "perplexity of JFT with light noise",
            "perplexity of DP-SGD",
        ])),
    ),
    claim(
        "table3",
        "recall",
        "the high entity detector finds 95.6 to 97.8 % of the sensitive tokens",
        "95.6 to 97.8 %",
        Test::Open(
            "the paper's reader and labels are not at hand; `audit screen` asks for labels of one's own",
        ),
    ),
    claim(
        "table4",
        "screening",
        "a small screened sample in the first phase predicts better than DP-SGD",
        "26.72 against 27.05",
        Test::Open(
            "screening takes a reader; `audit train --first-phase screened --screened FILE` takes what was screened",
        ),
    ),
    claim(
        "table6",
        "jft-below-crt",
        "JFT predicts better than CRT at the same noise",
        "21.86 against more",
        by(Rule::Ordered(&[
            "perplexity of JFT at low entity",
            "perplexity of CRT at low entity",
        ])),
    ),
    claim(
        "fig2",
        "no-dp-leaks",
        "ordinary training memorises a canary in ten copies",
        "rises without bound",
        by(least("exposure of No-DP", NULL)),
    ),
    claim(
        "fig2",
        "redacted-missed",
        "so does redacted training where the canary is missed",
        "increased",
        by(least("exposure of redacted at high entity", NULL)),
    ),
    claim(
        "fig2",
        "jft-missed",
        "and JFT",
        "increased",
        by(least("exposure of JFT at low entity", NULL)),
    ),
    claim(
        "fig2",
        "dpsgd-silent",
        "DP-SGD does not",
        "low",
        Test::By(
            most("exposure of DP-SGD", NULL),
            &[
                learned("perplexity of DP-SGD", "perplexity of No-DP"),
                heard("exposure of No-DP", NULL),
            ],
        ),
    ),
    claim(
        "fig2",
        "light-noise-silent",
        "light noise in the first phase protects a missed canary",
        "low",
        Test::By(
            most("exposure of JFT with light noise", NULL),
            &[
                learned("perplexity of JFT with light noise", "perplexity of No-DP"),
                heard("exposure of No-DP", NULL),
            ],
        ),
    ),
    claim(
        "fig3",
        "one-copy",
        "a canary that stands there once leaks little even from ordinary training",
        "below 3",
        by(most("mean exposure of No-DP, one copy", 3.0)),
    ),
    claim(
        "fig4",
        "recall-lowers",
        "a detector that finds six of ten canaries leaves less exposure than one that finds four",
        "lower at 0.6 than at 0.4",
        by(at_most(
            "mean exposure of redacted at recall 0.6",
            "mean exposure of redacted at recall 0.4",
            1.0,
        )),
    ),
    claim(
        "a2",
        "mask-token",
        "a redacted model predicts better where every mask is one token without loss than where masks are text",
        "37.90 against 64.82",
        by(Rule::Ordered(&[
            "perplexity of redacted at low contextual",
            "perplexity of redacted at low contextual as text",
        ])),
    ),
    claim(
        "a2",
        "special-tokens",
        "added special tokens cost DP-SGD much, ordinary training nothing",
        "27.05 against 30.32; 20.48 against 20.44",
        Test::Open(
            "fresh models have no embeddings that new tokens could disturb, and no pretrained one is at hand",
        ),
    ),
    claim(
        "table7",
        "tuning",
        "more epochs and larger batches help, with small gains",
        "27.04 to 28.84",
        Test::Open(
            "settings tuned on private text cost ε, which the paper does not count; `account` counts it by its rows on choosing",
        ),
    ),
];

/// Ganesh et al. 2025.
pub(super) const HUSH: &[Claim] = &[
    claim(
        "fig1a",
        "kept",
        "weights keep less of the examples, the smaller c is",
        "falls",
        by(Rule::Rises("examples kept over c")),
    ),
    claim(
        "fig1c",
        "noise-by-fano",
        "weights lower the noise that the proof by Fano's inequality asks for",
        "8 times",
        by(least("noise without weights over the least, by Fano", 5.0)),
    ),
    claim(
        "fig1c",
        "noise-50-2e-4",
        "σ of 50 examples, posterior 2e-4, by the paper's proof",
        "36.65",
        by(is("σ by Fano, 50 examples, 2e-4", 36.653, 1e-3)),
    ),
    claim(
        "fig1c",
        "noise-50-1e-3",
        "σ of 50 examples, posterior 1e-3",
        "15.51",
        by(is("σ by Fano, 50 examples, 1e-3", 15.508, 1e-3)),
    ),
    claim(
        "fig1c",
        "noise-100-2e-4",
        "σ of 100 examples, posterior 2e-4",
        "73.30",
        by(is("σ by Fano, 100 examples, 2e-4", 73.296, 1e-3)),
    ),
    claim(
        "fig1c",
        "noise-100-1e-3",
        "σ of 100 examples, posterior 1e-3",
        "30.99",
        by(is("σ by Fano, 100 examples, 1e-3", 30.991, 1e-3)),
    ),
    claim(
        "fig1b",
        "loss-without-noise",
        "weights alone cost little loss",
        "0.04",
        by(most("loss by weights, without noise", 0.1)),
    ),
    claim(
        "fig1d",
        "loss-with-noise",
        "with the noise that each needs, weights lower the loss",
        "7.5 %",
        Test::By(
            Rule::Ordered(&["loss with weights and noise", "loss with noise alone"]),
            &[learned(
                "perplexity with weights and noise",
                "perplexity of ordinary training",
            )],
        ),
    ),
    claim(
        "fig1d",
        "masked-model",
        "the same of a masked language model",
        "BERT-Tiny",
        Test::By(
            Rule::Ordered(&[
                "loss of masked tokens with weights and noise",
                "loss of masked tokens with noise alone",
            ]),
            &[learned(
                "pseudo-perplexity with weights and noise",
                "pseudo-perplexity of ordinary training",
            )],
        ),
    ),
    claim(
        "fig2",
        "little-noise-costs-little",
        "little noise costs little loss",
        "minimal",
        by(most("loss by little noise", 0.1)),
    ),
    claim(
        "fig3",
        "little-noise-stops-extraction",
        "a little noise halves what can be extracted, or more",
        "substantial reduction",
        Test::By(
            at_most(
                "extracted with a little noise",
                "extracted without noise",
                0.5,
            ),
            &[
                learned("perplexity with a little noise", "perplexity without noise"),
                heard("extracted without noise", 0.02),
            ],
        ),
    ),
    claim(
        "fig3",
        "fifty-from-fifty",
        "the same of 50 tokens behind 50",
        "Gemma-2 on FineWeb-Edu",
        Test::Open(
            "passages of 100 tokens do not come out of models of this size, with or without noise; shorter ones are judged above",
        ),
    ),
    claim(
        "lemma32",
        "promise-kept",
        "after training every secret's promise holds: what ran keeps what was certified",
        "posterior at most r",
        by(most("certified posterior over the promised one", 1.0)),
    ),
];

/// The claims that are new here.
pub(super) const OURS: &[Claim] = &[
    claim(
        "less-noise",
        "less-noise",
        "Hush!'s promises hold at 14 to 36 times less noise",
        "(Hush! calls the tight bound infeasible)",
        by(between("σ by Fano over σ by the blow-up", 14.0, 36.0)),
    ),
    claim(
        "blow-up",
        "blow-up-50-2e-4",
        "the blow-up at the paper's size: 50 examples, posterior 2e-4",
        "-",
        by(is("σ by the blow-up, 50 examples, 2e-4", 1.1963, 1e-3)),
    ),
    claim(
        "blow-up",
        "blow-up-50-1e-3",
        "50 examples, posterior 1e-3",
        "-",
        by(is("σ by the blow-up, 50 examples, 1e-3", 1.0762, 1e-3)),
    ),
    claim(
        "blow-up",
        "blow-up-100-2e-4",
        "100 examples, posterior 2e-4",
        "-",
        by(is("σ by the blow-up, 100 examples, 2e-4", 2.0684, 1e-3)),
    ),
    claim(
        "blow-up",
        "blow-up-100-1e-3",
        "100 examples, posterior 1e-3",
        "-",
        by(is("σ by the blow-up, 100 examples, 1e-3", 1.8159, 1e-3)),
    ),
    claim(
        "own-neighbours",
        "own-neighbours",
        "CRT promises less in the neighbours of its own definition: ε′ of the notebook, tight",
        "0.374388",
        by(is("ε′ of the notebook, as defined", 1.07938, 1e-3)),
    ),
    claim(
        "null",
        "null-of-the-largest",
        "the largest of ten exposures is 4.23 bits on average where nothing leaks",
        "(read as 0)",
        by(is(
            "mean of the largest exposure without a leak, computed",
            4.23,
            0.01,
        )),
    ),
    claim(
        "exposure-proves",
        "exposure-proves",
        "ranks of ten canaries prove more against ordinary training than against CRT",
        "-",
        by(at_most("ε at least, of CRT", "ε at least, of SGD", 0.5)),
    ),
    claim(
        "exposure-proves",
        "evalues-beside-ranks",
        "of about fifty canaries e-values prove more against ordinary training than ranks",
        "-",
        by(Rule::Ordered(&[
            "ε at least, of SGD with coins",
            "ε at least by e-values, of SGD with coins",
        ])),
    ),
    claim(
        "exposure-proves",
        "coins-beside-ranks",
        "in or out by a coin, the same canaries prove less than by their ranks, which speak of a replacement: two changes",
        "-",
        Test::By(
            at_most(
                "ε at least by coins, of SGD with coins",
                "ε at least, of SGD with coins",
                0.5,
            ),
            &[heard("ε at least by coins, of SGD with coins", 0.5)],
        ),
    ),
    claim(
        "exposure-proves",
        "evalues-of-crt",
        "e-values prove more against ordinary training than against CRT",
        "-",
        Test::By(
            at_most(
                "ε at least by e-values, of CRT with coins",
                "ε at least by e-values, of SGD with coins",
                0.5,
            ),
            &[
                learned(
                    "perplexity of CRT with coins",
                    "perplexity of SGD with coins",
                ),
                heard("ε at least by e-values, of SGD with coins", 0.5),
            ],
        ),
    ),
    claim(
        "exposure-proves",
        "coins-of-crt",
        "and so do coins",
        "-",
        Test::By(
            at_most(
                "ε at least by coins, of CRT with coins",
                "ε at least by coins, of SGD with coins",
                0.5,
            ),
            &[
                learned(
                    "perplexity of CRT with coins",
                    "perplexity of SGD with coins",
                ),
                heard("ε at least by coins, of SGD with coins", 0.5),
            ],
        ),
    ),
    claim(
        "joint",
        "joint-weights",
        "weights and noise chosen together need no more noise than the paper's weights, at the same kept mass",
        "-",
        by(most(
            "σ chosen together over σ of the paper's weights",
            1.0 + 1e-6,
        )),
    ),
    claim(
        "amplification",
        "zero-epsilon-reveals",
        "an ε′ of 0 by redaction does not bound what an informed adversary learns",
        "(read as a bound)",
        by(least(
            "ε of the missed secret where ε′ is 0, as defined",
            1.0,
        )),
    ),
    claim(
        "dominance",
        "dominance",
        "the dominance lemma holds for all three relations",
        "-",
        Test::Open("it is a proof, not a measurement: PROPOSITIONS.md names its tests"),
    ),
    claim(
        "rank-delta",
        "rank-audits-at-delta",
        "rank audits at δ > 0 prove a positive ε of ordinary training",
        "-",
        by(least("ε at least at δ = 0.01, of SGD", 0.1)),
    ),
    claim(
        "rank-delta",
        "delta-costs",
        "and no more than at δ = 0",
        "-",
        by(least("ε that δ = 0.01 costs the audit", 0.0)),
    ),
];

#[cfg(test)]
mod tests {
    use super::super::rules::tests::series;
    use super::super::rules::{Judgement, Series};
    use super::*;

    /// Measurements that meet every need, and the rule or not.
    fn planted(rule: Rule, needs: &[Need], good: bool) -> Vec<Series> {
        let mut all = Vec::new();
        let mut plant = |what: &str, points: &[(f64, &[f64])]| {
            all.retain(|other: &Series| other.what != what);
            all.push(series(what, points));
        };
        for need in needs {
            match *need {
                Need::Learned { what, of } => {
                    plant(what, &[(0.0, &[2.0, 2.1])]);
                    plant(of, &[(0.0, &[1.9, 2.0])]);
                }
                Need::Heard { what, above } => plant(what, &[(0.0, &[above + 0.5, above + 0.6])]),
                Need::Tells { what, of } => {
                    plant(what, &[(0.0, &[0.5, 0.6])]);
                    plant(of, &[(0.0, &[0.3, 0.3])]);
                }
            }
        }
        // Above what any need asks for.
        const LEVEL: f64 = 20.0;
        match rule {
            Rule::AtMost { what, of, times } => {
                let value = if good { 0.9 * times } else { 1.1 * times };
                plant(what, &[(0.0, &[LEVEL * value, LEVEL * value])]);
                plant(of, &[(0.0, &[LEVEL, LEVEL])]);
            }
            Rule::Ordered(names) => {
                for (at, name) in names.iter().enumerate() {
                    let step = if good { at as f64 } else { -(at as f64) };
                    plant(name, &[(0.0, &[LEVEL + step, LEVEL + step])]);
                }
            }
            Rule::Within { what, from, to } => {
                let value = match (good, from.is_finite(), to.is_finite()) {
                    (true, true, true) => f64::midpoint(from, to),
                    (true, true, false) => from,
                    (true, ..) => to,
                    (false, _, true) => to + 0.01 * to.abs().max(0.1),
                    (false, ..) => from - 0.01 * from.abs().max(0.1),
                };
                plant(what, &[(0.0, &[value, value])]);
            }
            Rule::Rises(what) => match good {
                true => plant(what, &[(0.0, &[1.0, 1.1]), (1.0, &[2.0, 2.1])]),
                false => plant(what, &[(0.0, &[1.0, 1.5]), (1.0, &[1.0, 1.6])]),
            },
            Rule::Is {
                what,
                value,
                within,
            } => {
                let off = if good { 0.9 } else { 1.1 } * within;
                plant(what, &[(0.0, &[value * (1.0 + off)])]);
            }
        }
        all
    }

    #[test]
    fn every_rule_passes_what_it_says_and_fails_what_was_planted() {
        let mut judged = 0;
        for claim in [CRT, JFT, HUSH, OURS].concat() {
            let Test::By(rule, needs) = claim.test else {
                continue;
            };
            judged += 1;
            let good = rule.judge(needs, &planted(rule, needs, true));
            assert_eq!(good, Judgement::Reproduced, "{}", claim.id);
            let bad = rule.judge(needs, &planted(rule, needs, false));
            assert!(
                matches!(bad, Judgement::NotReproduced { .. }),
                "{}: {bad:?}",
                claim.id
            );
            let nothing = rule.judge(needs, &[]);
            assert!(
                matches!(nothing, Judgement::NotTestable { .. }),
                "{}",
                claim.id
            );
        }
        assert!(judged > 50, "{judged}");
    }

    /// Silence counts only of a model that learned, where the attack hears something elsewhere.
    #[test]
    fn every_claim_of_silence_needs_a_model_that_learned() {
        for claim in [CRT, JFT].concat() {
            if !claim.id.ends_with("-silent") && !claim.id.starts_with("crt-") {
                continue;
            }
            let Test::By(rule, needs) = claim.test else {
                panic!("{}", claim.id);
            };
            let learned = |need: &&Need| matches!(need, Need::Learned { .. });
            let heard = |need: &&Need| matches!(need, Need::Heard { .. });
            assert!(needs.iter().any(|n| learned(&n)) && needs.iter().any(|n| heard(&n)));
            let Some(Need::Learned { what, .. }) = needs.iter().find(learned) else {
                panic!("{}", claim.id);
            };
            let mut dead = planted(rule, needs, true);
            dead.retain(|series| series.what != *what);
            dead.push(series(what, &[(0.0, &[f64::INFINITY])]));
            assert!(matches!(
                rule.judge(needs, &dead),
                Judgement::NotTestable { .. }
            ));
        }
    }

    #[test]
    fn names_are_told_apart() {
        for claims in [CRT, JFT, HUSH, OURS] {
            let mut ids: Vec<&str> = claims.iter().map(|claim| claim.id).collect();
            ids.sort_unstable();
            let all = ids.len();
            ids.dedup();
            assert_eq!(ids.len(), all);
        }
    }
}

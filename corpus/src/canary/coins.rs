//! Canaries that are planted or left out by a fair coin.

use super::plan::CanaryPlan;
use crate::error::{Error, Result, json_problem};
use crate::random::{Choices, Purpose, sha256_bytes};
use crate::unit::Unit;
use reticent_disk::hexadecimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which canaries were put in, each by a fair coin of its own: the content of `coins.json`, which
/// stays with the owner.
///
/// The coins are drawn under a digest of everything else in it, the seed included: a plan that was cut or edited draws
/// other coins than those that were planted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoinPlan {
    /// Version of the format: 2.
    pub schema: u32,
    /// `coin-plan`.
    #[serde(rename = "type")]
    pub kind: String,
    /// All canaries, those left out too.
    pub plan: CanaryPlan,
    /// Whether each was put in.
    pub inside: Vec<bool>,
    /// Whether a copy is a record of its own, so that a coin adds records. Otherwise it is a part of a record that
    /// is there without it too, and a coin changes what that record says.
    pub added: bool,
    /// SHA-256 of `plan` and `added`, hexadecimal: what the coins are drawn under.
    pub digest: String,
}

impl CoinPlan {
    /// Draws a coin for each canary, from a separate stream. `added` says whether a copy is a separate record.
    ///
    /// # Errors
    /// Returns an error if two canaries have the same secret or different numbers of copies: a coin must decide about
    /// its own canary alone.
    pub fn new(plan: CanaryPlan, added: bool) -> Result<Self> {
        let digest = digest(&plan, added)?;
        let coins = Self {
            schema: 2,
            kind: "coin-plan".to_owned(),
            inside: tossed(&digest, plan.canaries.len()),
            plan,
            added,
            digest: hexadecimal(&digest),
        };
        coins.validate()?;
        Ok(coins)
    }

    /// Reads `coins.json`.
    ///
    /// # Errors
    /// Returns an error if the text is not such a plan, or the plan contradicts itself.
    pub fn from_json(json: &str) -> Result<Self> {
        let coins: Self =
            serde_json::from_str(json).map_err(|error| Error::Plan(json_problem(&error)))?;
        coins.validate()?;
        Ok(coins)
    }

    /// Returns the text of `coins.json`.
    ///
    /// # Errors
    /// Never fails in practice; passes on an error of the serialiser.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|error| Error::Plan(error.to_string()))
    }

    /// Returns the plan of the planted canaries. Given the coins and everything else, each of their secrets is
    /// distributed as it would be without coins, so their ranks prove the same as those of a plan without coins.
    #[must_use]
    pub fn planted(&self) -> CanaryPlan {
        CanaryPlan {
            canaries: self
                .plan
                .canaries
                .iter()
                .zip(&self.inside)
                .filter(|(_, inside)| **inside)
                .map(|(canary, _)| canary.clone())
                .collect(),
            ..self.plan.clone()
        }
        .with_digest()
    }

    fn validate(&self) -> Result<()> {
        let wrong = |problem: String| Err(Error::Plan(problem));
        if self.schema != 2 || self.kind != "coin-plan" {
            return wrong(format!(
                "schema {} of type {:?}; schema 2 of type \"coin-plan\" is read",
                self.schema, self.kind
            ));
        }
        self.plan.validate()?;
        if self.inside.len() != self.plan.canaries.len() {
            return wrong(format!(
                "{} coins for {} canaries",
                self.inside.len(),
                self.plan.canaries.len()
            ));
        }
        // With fewer canaries, chosen when their scores were known, or with others than were planted, any promise could
        // be contradicted.
        let digest = digest(&self.plan, self.added)?;
        if self.digest != hexadecimal(&digest) {
            return wrong(
                "its plan is not the one that its coins were drawn for: cut or edited".to_owned(),
            );
        }
        let drawn = tossed(&digest, self.plan.canaries.len());
        let other = self.inside.iter().zip(&drawn).filter(|(a, b)| a != b);
        let other = other.count();
        if other > 0 {
            return wrong(format!(
                "{other} of {} coins are not those that its plan draws: edited, or of other canaries",
                self.inside.len()
            ));
        }
        // The plan's canaries have distinct secrets; check that the template has that many.
        self.plan.check_secrets()?;
        if self.added && self.plan.unit != Unit::Turn {
            return wrong(format!(
                "a canary in a {} is no record of its own",
                self.plan.unit
            ));
        }
        if !self.plan.distinct {
            return wrong("canaries with coins need distinct secrets".to_owned());
        }
        if !self.plan.doses.is_empty() {
            return wrong("canaries with coins need one number of copies".to_owned());
        }
        Ok(())
    }
}

/// Returns the digest that the coins are drawn under. It covers every part of the plan, including its seed, and what a
/// coin changes.
fn digest(plan: &CanaryPlan, added: bool) -> Result<[u8; 32]> {
    let json =
        serde_json::to_vec(&(plan, added)).map_err(|error| Error::Plan(error.to_string()))?;
    Ok(sha256_bytes(&json))
}

/// Returns the coins of a plan.
fn tossed(digest: &[u8; 32], canaries: usize) -> Vec<bool> {
    let mut choices = Choices::under(digest, Purpose::CanaryCoins);
    (0..canaries).map(|_| choices.below(2) == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::super::insert::insert;
    use super::super::plan::CanaryOptions;
    use super::super::spec::Spec;
    use super::*;
    use crate::document::Document;

    fn documents() -> Vec<Document> {
        (0..50)
            .map(|i| {
                Document::new(
                    format!("d{i}"),
                    format!("a line of document {i}\nand another"),
                )
            })
            .collect()
    }

    fn coins(canaries: u32) -> CoinPlan {
        let options = CanaryOptions {
            seed: 7,
            ..CanaryOptions::new(Spec::new(canaries, 2).unwrap())
        };
        let plan = CanaryPlan::new(&options, Unit::Document, &documents()).unwrap();
        CoinPlan::new(plan, false).unwrap()
    }

    /// In every copy where the coin says so, nowhere else; 1000 fair coins give 500 within four
    /// standard deviations (63).
    #[test]
    fn what_is_in_stands_there_and_nothing_else() {
        let coins = coins(1_000);
        let heads = coins.inside.iter().filter(|inside| **inside).count();
        assert!((437..=563).contains(&heads), "{heads}");
        let (planted, _) = insert(&coins.planted(), &documents()).unwrap();
        let found = coins
            .plan
            .occurrences(planted.iter().map(|d| d.text.as_str()));
        for (count, inside) in found.iter().zip(&coins.inside) {
            assert_eq!(*count, if *inside { 2 } else { 0 });
        }
        let ranked = coins.planted();
        assert_eq!(ranked.canaries.len(), heads);
        ranked.validate().unwrap();
        for canary in &ranked.canaries {
            let number = coins.plan.canaries.iter().position(|c| c == canary);
            assert!(coins.inside[number.unwrap()]);
        }
    }

    #[test]
    fn it_is_read_back_and_checked() {
        let coins = coins(10);
        let json = coins.to_json().unwrap();
        assert_eq!(CoinPlan::from_json(&json).unwrap(), coins);
        let short = CoinPlan {
            inside: vec![true; 9],
            ..coins.clone()
        };
        let said = CoinPlan::from_json(&short.to_json().unwrap()).unwrap_err();
        assert!(
            said.to_string().contains("9 coins for 10 canaries"),
            "{said}"
        );
        let mut shared = coins.plan.clone();
        shared.distinct = false;
        assert!(
            CoinPlan::new(shared, false)
                .unwrap_err()
                .to_string()
                .contains("distinct")
        );
        assert!(CoinPlan::from_json("{}").is_err());
        let silent = json.replace("  \"added\": false,\n", "");
        assert!(silent != json && CoinPlan::from_json(&silent).is_err());
        let older = json.replacen("\"schema\": 2", "\"schema\": 1", 1);
        let said = CoinPlan::from_json(&older).unwrap_err().to_string();
        assert!(said.contains("schema 2"), "{said}");
    }

    /// As they were written, whoever asks; with another digest, and under it.
    #[test]
    fn a_plan_that_was_cut_or_edited_is_refused() {
        let options = CanaryOptions {
            seed: 7,
            ..CanaryOptions::new(Spec::new(40, 2).unwrap())
        };
        let plan = CanaryPlan::new(&options, Unit::Turn, &documents()).unwrap();
        let coins = CoinPlan::new(plan, true).unwrap();
        let cut = |coins: &CoinPlan, most| {
            let mut cut = coins.clone();
            cut.plan.canaries.truncate(most);
            cut.inside.truncate(most);
            cut
        };
        let fewer_copies = |coins: &CoinPlan| {
            let mut fewer = coins.clone();
            fewer.plan.copies = 1;
            for canary in &mut fewer.plan.canaries {
                canary.insertions.truncate(1);
            }
            fewer
        };
        let replaced = CoinPlan {
            added: false,
            ..coins.clone()
        };
        for edited in [
            cut(&coins, 39),
            cut(&coins, 20),
            replaced,
            fewer_copies(&coins),
        ] {
            let read = |coins: &CoinPlan| CoinPlan::from_json(&coins.to_json().unwrap());
            let said = read(&edited).unwrap_err().to_string();
            assert!(said.contains("cut or edited"), "{said}");
            let redigested = CoinPlan {
                digest: hexadecimal(&digest(&edited.plan, edited.added).unwrap()),
                ..edited
            };
            let said = read(&redigested).unwrap_err().to_string();
            assert!(said.contains("coins are not those"), "{said}");
        }
    }

    #[test]
    fn coins_that_its_plan_does_not_draw_are_refused() {
        let coins = self::coins(200);
        let flipped: Vec<bool> = coins.inside.iter().map(|inside| !inside).collect();
        let mut one = coins.inside.clone();
        one[17] = !one[17];
        for (inside, said) in [(flipped, "200 of 200 coins"), (one, "1 of 200 coins")] {
            let edited = CoinPlan {
                inside,
                ..coins.clone()
            };
            let refused = CoinPlan::from_json(&edited.to_json().unwrap()).unwrap_err();
            assert!(refused.to_string().contains(said), "{refused}");
        }
        let mut edited = coins.plan.clone();
        let last = &mut edited.canaries[199];
        let other = last.secret.chars().rev().collect::<String>();
        for insertion in &mut last.insertions {
            insertion.text = insertion.text.replace(&last.secret, &other);
        }
        assert_ne!(last.secret, other);
        last.secret = other;
        let refused = CoinPlan::new(edited, false).unwrap_err();
        assert!(
            refused.to_string().contains("1 of 200 secrets"),
            "{refused}"
        );
        let said = CoinPlan::new(coins.plan, true).unwrap_err();
        assert!(said.to_string().contains("no record of its own"), "{said}");
    }
}

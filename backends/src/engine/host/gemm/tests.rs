use super::*;

fn fill(count: usize, step: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i * step) % 101) as f32 / 50.0 - 1.0)
        .collect()
}

#[test]
fn every_layout_gives_the_sum_of_products() {
    for (m, k, n) in [
        (1, 1, 1),
        (6, 256, 16),
        (7, 257, 17),
        (40, 600, 35),
        (130, 30, 200),
        (1100, 3, 5),
        (3, 0, 4),
    ] {
        let (a, b, w) = (fill(m * k, 7), fill(k * n, 11), fill(k, 13));
        for (at, bt, weighted, store) in [
            (false, false, false, Store::Set),
            (true, false, true, Store::Add),
            (false, true, true, Store::Set),
            (true, true, false, Store::Add),
        ] {
            let view = |x, t, rows, columns| {
                if t {
                    View::new(x, rows).transposed()
                } else {
                    View::new(x, columns)
                }
            };
            let (av, bv) = (view(&a, at, m, k), view(&b, bt, k, n));
            let mut c = fill(m * n, 3);
            let before = c.clone();
            weighted_product(av, weighted.then_some(&w[..]), bv, &mut c, (m, k, n), store);
            for i in 0..m {
                for j in 0..n {
                    let at = |v: View<'_>, r: usize, s: usize| {
                        f64::from(v.data[r * v.row + s * v.column])
                    };
                    let mut want: f64 = (0..k)
                        .map(|t| {
                            let w = if weighted { f64::from(w[t]) } else { 1.0 };
                            at(av, i, t) * w * at(bv, t, j)
                        })
                        .sum();
                    if store == Store::Add {
                        want += f64::from(before[i * n + j]);
                    }
                    assert!(
                        (f64::from(c[i * n + j]) - want).abs() < 2e-5 * (1.0 + k as f64),
                        "{m} {k} {n} at {i} {j}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_row_gets_the_same_bits_in_any_company() {
    let (m, k, n) = (300, 700, 90);
    let (a, b) = (fill(m * k, 7), fill(k * n, 11));
    let mut all = vec![0.0; m * n];
    product(
        View::new(&a, k),
        View::new(&b, n),
        &mut all,
        (m, k, n),
        Store::Set,
    );
    for i in [0, 5, 6, 133, 299] {
        let mut alone = vec![0.0; n];
        dense_here(
            View::new(&a[i * k..], k),
            View::new(&b, n),
            &mut alone,
            (1, k, n),
            Store::Set,
            None,
        );
        let bits = |x: &[f32]| x.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&alone), bits(&all[i * n..(i + 1) * n]), "row {i}");
    }
}

#[test]
fn the_lower_triangle_is_whole() {
    let (t, k) = (50, 20);
    let a = fill(t * k, 7);
    let view = View::new(&a, k);
    let (mut whole, mut lower) = (vec![0.0; t * t], vec![0.0; t * t]);
    dense_here(
        view,
        view.transposed(),
        &mut whole,
        (t, k, t),
        Store::Set,
        None,
    );
    dense_here(
        view,
        view.transposed(),
        &mut lower,
        (t, k, t),
        Store::Set,
        Some(0),
    );
    for i in 0..t {
        for j in 0..=i {
            assert_eq!(whole[i * t + j].to_bits(), lower[i * t + j].to_bits());
        }
    }
}

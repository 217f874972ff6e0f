//! Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V. The standard library and nothing else.
//!
//!     rustc -O attention.rs
//!     ./attention          the sentence 远方有颗苹果树, step by step
//!     ./attention judge    one JSON object on standard input, {"result": [output, weights]} on standard output

use std::collections::HashMap;
use std::io::Read;

type Outcome<T> = Result<T, String>;

/// The last two axes are rows and columns, those in front are a batch.
#[derive(Clone)]
struct Array {
    shape: Vec<usize>,
    data: Vec<f64>,
}

impl Array {
    /// Zeros with the batch of this array and these last two axes.
    fn zeros(&self, rows: usize, columns: usize) -> Array {
        let mut shape = self.shape.clone();
        let n = shape.len();
        shape[n - 2] = rows;
        shape[n - 1] = columns;
        let size = shape.iter().product();
        Array {
            shape,
            data: vec![0.0; size],
        }
    }

    fn rows(&self) -> usize {
        self.shape[self.shape.len() - 2]
    }

    fn columns(&self) -> usize {
        self.shape[self.shape.len() - 1]
    }

    fn batch_axes(&self) -> &[usize] {
        &self.shape[..self.shape.len() - 2]
    }

    fn batches(&self) -> usize {
        self.batch_axes().iter().product()
    }

    fn start(&self, batch: usize, i: usize) -> usize {
        (batch * self.rows() + i) * self.columns()
    }

    fn row(&self, batch: usize, i: usize) -> &[f64] {
        &self.data[self.start(batch, i)..][..self.columns()]
    }

    fn row_mut(&mut self, batch: usize, i: usize) -> &mut [f64] {
        let (start, columns) = (self.start(batch, i), self.columns());
        &mut self.data[start..start + columns]
    }

    /// Every row, as (batch, i).
    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let rows = self.rows();
        (0..self.batches()).flat_map(move |batch| (0..rows).map(move |i| (batch, i)))
    }
}

// ---- attention ----

/// A mask is (Tq, Tk), the same for the whole batch, or has the axes of the batch too.
fn may_look(mask: Option<&Array>, batch: usize, i: usize, j: usize) -> bool {
    match mask {
        None => true,
        Some(m) => m.row(if m.shape.len() == 2 { 0 } else { batch }, i)[j] != 0.0,
    }
}

fn check_shapes(q: &Array, k: &Array, v: &Array, mask: Option<&Array>) -> Outcome<()> {
    if q.shape.len() < 2 || k.shape.len() != q.shape.len() || v.shape.len() != q.shape.len() {
        return Err("Q, K and V need equally many axes, at least 2".into());
    }
    if k.batch_axes() != q.batch_axes() || v.batch_axes() != q.batch_axes() {
        return Err("Q, K and V have unlike batches".into());
    }
    if k.columns() != q.columns() {
        return Err(format!(
            "K has {} columns but Q has {}",
            k.columns(),
            q.columns()
        ));
    }
    if v.rows() != k.rows() {
        return Err(format!("V has {} rows but K has {}", v.rows(), k.rows()));
    }
    if let Some(m) = mask {
        let fits = m.shape.len() >= 2 && [m.rows(), m.columns()] == [q.rows(), k.rows()];
        if !fits || !(m.shape.len() == 2 || m.batch_axes() == q.batch_axes()) {
            return Err("the mask is not (Tq, Tk)".into());
        }
    }
    Ok(())
}

/// scores[i][j] = q_i . k_j
fn products(q: &Array, k: &Array) -> Array {
    let mut scores = q.zeros(q.rows(), k.rows());
    for (batch, i) in q.places() {
        for j in 0..k.rows() {
            let pairs = q.row(batch, i).iter().zip(k.row(batch, j));
            scores.row_mut(batch, i)[j] = pairs.map(|(a, b)| a * b).sum();
        }
    }
    scores
}

fn scaled_by_root(scores: &Array, d_k: usize) -> Array {
    let root = (d_k as f64).sqrt();
    Array {
        shape: scores.shape.clone(),
        data: scores.data.iter().map(|score| score / root).collect(),
    }
}

/// Softmax over the keys that may be looked at; a row that may look at nothing stays 0.
fn softmax(scaled: &Array, mask: Option<&Array>) -> Array {
    let mut weights = scaled.zeros(scaled.rows(), scaled.columns());
    for (batch, i) in scaled.places() {
        let scores = scaled.row(batch, i);
        let seen: Vec<usize> = (0..scores.len())
            .filter(|&j| may_look(mask, batch, i, j))
            .collect();
        let top = seen
            .iter()
            .map(|&j| scores[j])
            .fold(
                f64::NEG_INFINITY,
                |a, b| if b > a || b.is_nan() { b } else { a },
            );
        let total: f64 = seen.iter().map(|&j| (scores[j] - top).exp()).sum();
        for j in seen {
            weights.row_mut(batch, i)[j] = (scores[j] - top).exp() / total;
        }
    }
    weights
}

/// Each output row is the average of the values by its weights; a hidden value takes no part, whatever it holds.
fn mixed(weights: &Array, v: &Array, mask: Option<&Array>) -> Array {
    let mut output = weights.zeros(weights.rows(), v.columns());
    for (batch, i) in weights.places() {
        for j in (0..v.rows()).filter(|&j| may_look(mask, batch, i, j)) {
            let weight = weights.row(batch, i)[j];
            for (out, value) in output.row_mut(batch, i).iter_mut().zip(v.row(batch, j)) {
                *out += weight * value;
            }
        }
    }
    output
}

fn show(aloud: bool, name: &str, a: &Array) {
    if aloud {
        let sizes: Vec<String> = a.shape.iter().map(usize::to_string).collect();
        println!("{name}: ({})", sizes.join(", "));
    }
}

fn attention(
    q: &Array,
    k: &Array,
    v: &Array,
    mask: Option<&Array>,
    aloud: bool,
) -> Outcome<(Array, Array)> {
    check_shapes(q, k, v, mask)?;
    let scores = products(q, k);
    show(aloud, "1. 分数 scores = Q Kᵀ", &scores);
    let scaled = scaled_by_root(&scores, q.columns());
    show(aloud, "2. 缩放 scaled = scores / √d_k", &scaled);
    let weights = softmax(&scaled, mask);
    show(aloud, "3. 权重 weights = softmax(scaled)", &weights);
    let output = mixed(&weights, v, mask);
    show(aloud, "4. 输出 output = weights V", &output);
    Ok((output, weights))
}

// ---- JSON: only as much as the judge speaks ----

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn next_is(&mut self, sign: &str) -> bool {
        self.rest = self.rest.trim_start();
        let found = self.rest.strip_prefix(sign);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn expect(&mut self, sign: &str) -> Outcome<()> {
        if self.next_is(sign) {
            Ok(())
        } else {
            Err(format!("{sign} was expected in the input"))
        }
    }

    /// A string; the names and numbers of the judge hold no escapes.
    fn string(&mut self) -> Outcome<&'a str> {
        self.expect("\"")?;
        let (text, rest) = self.rest.split_once('"').ok_or("a string does not end")?;
        self.rest = rest;
        Ok(text)
    }

    /// A number, true, false, or one of the strings "NaN", "Infinity" and "-Infinity".
    fn number(&mut self) -> Outcome<f64> {
        for (word, value) in [("true", 1.0), ("false", 0.0), ("\"NaN\"", f64::NAN)] {
            if self.next_is(word) {
                return Ok(value);
            }
        }
        for (word, value) in [
            ("\"Infinity\"", f64::INFINITY),
            ("\"-Infinity\"", f64::NEG_INFINITY),
        ] {
            if self.next_is(word) {
                return Ok(value);
            }
        }
        let end = self
            .rest
            .find(|c: char| !"+-.0123456789eE".contains(c))
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits
            .parse()
            .map_err(|_| format!("a number was expected, not {digits:?}"))
    }

    fn axis(&mut self, a: &mut Array, axis: usize) -> Outcome<()> {
        const UNLIKE: &str = "the rows of an array have unlike lengths";
        if !self.next_is("[") {
            if axis != a.shape.len() {
                return Err(UNLIKE.into());
            }
            a.data.push(self.number()?);
            return Ok(());
        }
        let first = a.data.is_empty() && axis == a.shape.len();
        if first {
            a.shape.push(0);
        }
        let mut length = 0;
        if !self.next_is("]") {
            loop {
                self.axis(a, axis + 1)?;
                length += 1;
                if !self.next_is(",") {
                    break;
                }
            }
            self.expect("]")?;
        }
        if first {
            a.shape[axis] = length;
        }
        if a.shape.get(axis) == Some(&length) {
            Ok(())
        } else {
            Err(UNLIKE.into())
        }
    }

    fn array(&mut self) -> Outcome<Option<Array>> {
        if self.next_is("null") {
            return Ok(None);
        }
        let mut a = Array {
            shape: vec![],
            data: vec![],
        };
        self.axis(&mut a, 0)?;
        Ok(Some(a))
    }

    fn arguments(&mut self) -> Outcome<HashMap<&'a str, Array>> {
        let mut found = HashMap::new();
        self.expect("{")?;
        loop {
            let name = self.string()?;
            self.expect(":")?;
            if let Some(array) = self.array()? {
                found.insert(name, array);
            }
            if !self.next_is(",") {
                break;
            }
        }
        self.expect("}")?;
        Ok(found)
    }
}

fn written(a: &Array, axis: usize, numbers: &mut std::slice::Iter<f64>) -> String {
    if axis < a.shape.len() {
        let items: Vec<String> = (0..a.shape[axis])
            .map(|_| written(a, axis + 1, numbers))
            .collect();
        return format!("[{}]", items.join(","));
    }
    match numbers.next() {
        Some(n) if n.is_finite() => format!("{n:?}"),
        Some(n) if n.is_nan() => "\"NaN\"".into(),
        Some(n) => format!("\"{}Infinity\"", if *n < 0.0 { "-" } else { "" }),
        None => unreachable!("as many numbers as the shape says"),
    }
}

fn judge() -> Outcome<()> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    let mut reader = Reader { rest: &text };
    let mut arguments = HashMap::new();
    reader.expect("{")?;
    loop {
        let name = reader.string()?;
        reader.expect(":")?;
        if name != "task" {
            arguments = reader.arguments()?;
        } else if reader.string()? != "scaled_dot_product_attention" {
            return Err("this port knows scaled_dot_product_attention only".into());
        }
        if !reader.next_is(",") {
            break;
        }
    }
    let of = |name: &str| arguments.get(name).ok_or(format!("{name} is missing"));
    let (output, weights) = attention(of("Q")?, of("K")?, of("V")?, arguments.get("mask"), false)?;
    let [output, weights] = [output, weights].map(|a| written(&a, 0, &mut a.data.iter()));
    println!("{{\"result\": [{output}, {weights}]}}");
    Ok(())
}

// ---- the sentence of the article ----

const X: [f64; 28] = [
    0.4967, -0.1383, 0.6477, 1.523, -0.2342, -0.2341, 1.5792, 0.7674, -0.4695, 0.5426, -0.4634,
    -0.4657, 0.242, -1.9133, -1.7249, -0.5623, -1.0128, 0.3142, -0.908, -1.4123, 1.4656, -0.2258,
    0.0675, -1.4247, -0.5444, 0.1109, -1.151, 0.3757,
];
const W_Q: [f64; 16] = [
    -0.6006, -0.2917, -0.6017, 1.8523, -0.0135, -1.0577, 0.8225, -1.2208, 0.2089, -1.9597, -1.3282,
    0.1969, 0.7385, 0.1714, -0.1156, -0.3011,
];
const W_K: [f64; 16] = [
    -1.4785, -0.7198, -0.4606, 1.0571, 0.3436, -1.763, 0.3241, -0.3851, -0.6769, 0.6117, 1.031,
    0.9313, -0.8392, -0.3092, 0.3313, 0.9755,
];
const W_V: [f64; 16] = [
    -0.4792, -0.1857, -1.1063, -1.1962, 0.8125, 1.3562, -0.072, 1.0035, 0.3616, -0.6451, 0.3614,
    1.538, -0.0358, 1.5646, -2.6197, 0.8219,
];

fn matrix(data: &[f64], rows: usize, columns: usize) -> Array {
    Array {
        shape: vec![rows, columns],
        data: data.to_vec(),
    }
}

fn projected(x: &Array, w: &Array) -> Array {
    let mut y = x.zeros(x.rows(), w.columns());
    for (batch, i) in x.places() {
        for (c, value) in x.row(batch, i).iter().enumerate() {
            for (out, weight) in y.row_mut(batch, i).iter_mut().zip(w.row(0, c)) {
                *out += value * weight;
            }
        }
    }
    y
}

fn print_rows(a: &Array, n_rows: usize) {
    for i in 0..n_rows {
        let numbers: Vec<String> = a
            .row(0, i)
            .iter()
            .map(|number| format!("{number:8.4}"))
            .collect();
        println!("{}", numbers.join(" "));
    }
}

fn example() -> Outcome<()> {
    let x = matrix(&X, 7, 4);
    println!("远方有颗苹果树");
    show(true, "输入 X", &x);
    let [q, k, v] = [W_Q, W_K, W_V].map(|w| projected(&x, &matrix(&w, 4, 4)));
    show(true, "查询 Q = X W_Q", &q);
    show(true, "键 K = X W_K", &k);
    show(true, "值 V = X W_V", &v);
    let (output, weights) = attention(&q, &k, &v, None, true)?;
    println!("远 weights[0]:");
    print_rows(&weights, 1);
    println!("output:");
    print_rows(&output, output.rows());
    Ok(())
}

fn main() {
    let outcome = match std::env::args().nth(1).as_deref() {
        None => example(),
        Some("judge") => judge(),
        Some(_) => Err("usage: attention [judge]".into()),
    };
    if let Err(message) = outcome {
        eprintln!("attention: {message}");
        std::process::exit(1);
    }
}

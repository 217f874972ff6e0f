// Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V. Node and nothing else.
//
//   node attention.js          the sentence 远方有颗苹果树, step by step
//   node attention.js judge    one JSON object on standard input, {"result": [output, weights]} on standard output
"use strict";

// ---- attention: matrices are arrays of rows; a mask is null or (Tq, Tk), true = may look ----

const transposed = (A) => A[0].map((_, c) => A.map((row) => row[c]));
const dot = (a, b) => a.reduce((sum, x, n) => sum + x * b[n], 0);
const times = (A, B) => A.map((row) => transposed(B).map((column) => dot(row, column)));

const products = (Q, K) => Q.map((q) => K.map((k) => dot(q, k)));
const scaledByRoot = (scores, d_k) => scores.map((row) => row.map((score) => score / Math.sqrt(d_k)));
const mayLook = (mask, i, j) => mask === null || mask[i][j];

// Softmax over the keys that may be looked at; a row that may look at nothing stays 0.
function softmax(scaled, mask) {
  return scaled.map((row, i) => {
    const seen = (_, j) => mayLook(mask, i, j);
    const top = Math.max(...row.filter(seen));
    const exp = row.map((score, j) => (mayLook(mask, i, j) ? Math.exp(score - top) : 0));
    const total = exp.filter(seen).reduce((sum, x) => sum + x, 0);
    return exp.map((x, j) => (mayLook(mask, i, j) ? x / total : 0));
  });
}

// Each output row is the average of the values by its weights; a hidden value takes no part, whatever it holds.
function mixed(weights, V, mask) {
  return weights.map((row, i) => {
    const seen = (_, j) => mayLook(mask, i, j);
    return V[0].map((_, c) => dot(row.filter(seen), V.filter(seen).map((value) => value[c])));
  });
}

function show(aloud, name, A) {
  if (aloud) console.log(`${name}: (${shape(A).join(", ")})`);
}

function ofMatrices(Q, K, V, mask, aloud = false) {
  const scores = products(Q, K);
  show(aloud, "1. 分数 scores = Q Kᵀ", scores);
  const scaled = scaledByRoot(scores, Q[0].length);
  show(aloud, "2. 缩放 scaled = scores / √d_k", scaled);
  const weights = softmax(scaled, mask);
  show(aloud, "3. 权重 weights = softmax(scaled)", weights);
  const output = mixed(weights, V, mask);
  show(aloud, "4. 输出 output = weights V", output);
  return [output, weights];
}

// With axes in front, attention runs for each entry of the batch; a mask (Tq, Tk) is the same for all of them.
function attention(Q, K, V, mask) {
  if (shape(Q).length === 2) return ofMatrices(Q, K, V, mask);
  const shared = mask === null || shape(mask).length === 2;
  const results = Q.map((_, b) => attention(Q[b], K[b], V[b], shared ? mask : mask[b]));
  return [results.map((result) => result[0]), results.map((result) => result[1])];
}

// ---- shapes ----

function shape(A) {
  const sizes = [];
  for (let part = A; Array.isArray(part); part = part[0]) sizes.push(part.length);
  return sizes;
}

function check(fits, message) {
  if (!fits) throw new Error(message);
}

function checkShapes(Q, K, V, mask) {
  for (const A of mask === null ? [Q, K, V] : [Q, K, V, mask]) {
    check(shape(A).length >= 2, "an array needs at least 2 axes");
    check(isRegular(A, shape(A)), "the rows of an array have unlike lengths");
  }
  const [q, k, v] = [Q, K, V].map(shape);
  const batch = String(q.slice(0, -2));
  check(q.length === k.length && q.length === v.length, "Q, K and V need equally many axes");
  check(String(k.slice(0, -2)) === batch && String(v.slice(0, -2)) === batch, "Q, K and V have unlike batches");
  check(k.at(-1) === q.at(-1), `K has ${k.at(-1)} columns but Q has ${q.at(-1)}`);
  check(v.at(-2) === k.at(-2), `V has ${v.at(-2)} rows but K has ${k.at(-2)}`);
  if (mask === null) return;
  const m = shape(mask);
  check(m.at(-2) === q.at(-2) && m.at(-1) === k.at(-2), "the mask is not (Tq, Tk)");
  check(m.length === 2 || String(m.slice(0, -2)) === batch, "the mask has another batch than Q");
}

function isRegular(A, [size, ...inner]) {
  if (size === undefined) return !Array.isArray(A);
  return Array.isArray(A) && A.length === size && A.every((part) => isRegular(part, inner));
}

// ---- the judge's JSON: what is not finite travels as text ----

const received = (_, value) => (["NaN", "Infinity", "-Infinity"].includes(value) ? Number(value) : value);
const sent = (_, value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value);

function judge() {
  const question = JSON.parse(require("node:fs").readFileSync(0, "utf8"), received);
  check(question.task === "scaled_dot_product_attention", "this port knows scaled_dot_product_attention only");
  const { Q, K, V, mask = null } = question.arguments;
  checkShapes(Q, K, V, mask);
  console.log(JSON.stringify({ result: attention(Q, K, V, mask) }, sent));
}

// ---- the sentence of the article ----

const X = [
  [0.4967, -0.1383, 0.6477, 1.523],
  [-0.2342, -0.2341, 1.5792, 0.7674],
  [-0.4695, 0.5426, -0.4634, -0.4657],
  [0.242, -1.9133, -1.7249, -0.5623],
  [-1.0128, 0.3142, -0.908, -1.4123],
  [1.4656, -0.2258, 0.0675, -1.4247],
  [-0.5444, 0.1109, -1.151, 0.3757],
];
const W_Q = [
  [-0.6006, -0.2917, -0.6017, 1.8523],
  [-0.0135, -1.0577, 0.8225, -1.2208],
  [0.2089, -1.9597, -1.3282, 0.1969],
  [0.7385, 0.1714, -0.1156, -0.3011],
];
const W_K = [
  [-1.4785, -0.7198, -0.4606, 1.0571],
  [0.3436, -1.763, 0.3241, -0.3851],
  [-0.6769, 0.6117, 1.031, 0.9313],
  [-0.8392, -0.3092, 0.3313, 0.9755],
];
const W_V = [
  [-0.4792, -0.1857, -1.1063, -1.1962],
  [0.8125, 1.3562, -0.072, 1.0035],
  [0.3616, -0.6451, 0.3614, 1.538],
  [-0.0358, 1.5646, -2.6197, 0.8219],
];

function example() {
  console.log("远方有颗苹果树");
  show(true, "输入 X", X);
  const [Q, K, V] = [W_Q, W_K, W_V].map((W) => times(X, W));
  show(true, "查询 Q = X W_Q", Q);
  show(true, "键 K = X W_K", K);
  show(true, "值 V = X W_V", V);
  const [output, weights] = ofMatrices(Q, K, V, null, true);
  const line = (row) => row.map((number) => number.toFixed(4).padStart(8)).join(" ");
  console.log(`远 weights[0]:\n${line(weights[0])}\noutput:\n${output.map(line).join("\n")}`);
}

try {
  const mode = process.argv[2];
  check(mode === undefined || mode === "judge", "usage: node attention.js [judge]");
  mode === "judge" ? judge() : example();
} catch (error) {
  console.error(`attention: ${error.message}`);
  process.exitCode = 1;
}

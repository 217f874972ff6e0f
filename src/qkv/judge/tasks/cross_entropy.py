"""Cross-entropy: how surprised the model is at what really comes next."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import ops
from ..mistakes import say
from ..probes import drawn
from ..task import Function, Line, Mistake, Probe, Task, Text, formula
from ..wire import Array


def largest(logits: Array) -> Array:
    return logits.max(axis=-1, keepdims=True)


def log_of_quotient(shifted: Array) -> Array:
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def at_targets(log_probabilities: Array, targets: Array) -> Array:
    return -log_probabilities[np.arange(len(targets)), targets]


def mean(losses: Array, logits: Array) -> Array:
    return losses.mean()


def as_given(x: Array) -> Array:
    return x


@formula
def entropy(
    logits: Array,
    targets: Array,
    *,
    before: Function = as_given,
    top: Function = largest,
    log_softmax: Function = log_of_quotient,
    choose: Function = at_targets,
    reduce: Function = mean,
) -> Array:
    with np.errstate(all="ignore"):
        scores = before(logits)
        shifted = scores - top(scores)
        log_probabilities = log_softmax(shifted)
        losses = choose(log_probabilities, targets)
        loss = reduce(losses, logits)
    return loss


def nothing(logits: Array) -> Array:
    return np.zeros(())


def largest_of_all(logits: Array) -> Array:
    return logits.max()


def flat_largest(logits: Array) -> Array:
    return logits.max(axis=-1)


def largest_of_columns(logits: Array) -> Array:
    return logits.max(axis=0)


def along_columns(shifted: Array) -> Array:
    return shifted - np.log(np.exp(shifted).sum(axis=0))


def log_of_column_probabilities(shifted: Array) -> Array:
    exp = np.exp(shifted)
    return np.log(exp / exp.sum(axis=0))


def over_everything(shifted: Array) -> Array:
    return shifted - np.log(np.exp(shifted).sum())


def flat_sum(shifted: Array) -> Array:
    return shifted - np.log(np.exp(shifted).sum(axis=-1))


def probabilities(shifted: Array) -> Array:
    exp = np.exp(shifted)
    return exp / exp.sum(axis=-1, keepdims=True)


def log_of_probabilities(shifted: Array) -> Array:
    return np.log(probabilities(shifted))


def log_of_a_bit_more(shifted: Array, *, more: float) -> Array:
    return np.log(probabilities(shifted) + more)


def log_of_at_least(shifted: Array, *, least: float) -> Array:
    return np.log(np.clip(probabilities(shifted), least, 1 - least))


def log_to_base(shifted: Array, *, base: float) -> Array:
    return log_of_quotient(shifted) / np.log(base)


def clipped(logits: Array, *, least: float, most: float) -> Array:
    return np.clip(logits, least, most)


def log_of_clipped(shifted: Array, *, least: float) -> Array:
    return log_of_quotient(np.maximum(shifted, least))


def positive(log_probabilities: Array, targets: Array) -> Array:
    return log_probabilities[np.arange(len(targets)), targets]


def all_pairs(log_probabilities: Array, targets: Array) -> Array:
    return -log_probabilities[:, targets]


def next_targets(log_probabilities: Array, targets: Array) -> Array:
    return at_targets(log_probabilities[:-1], targets[1:])


def likeliest(log_probabilities: Array, targets: Array) -> Array:
    return -log_probabilities.max(axis=-1)


def total(losses: Array, logits: Array) -> Array:
    return losses.sum()


def each(losses: Array, logits: Array) -> Array:
    return losses


def mean_of_everything(losses: Array, logits: Array) -> Array:
    return losses.sum() / logits.size


def mean_over_vocabulary(losses: Array, logits: Array) -> Array:
    return losses.sum() / logits.shape[-1]


def sum_over_n(losses: Array, logits: Array) -> Array:
    return losses.sum() / len(logits)


def cut_first(losses: Array, logits: Array) -> Array:
    return losses.astype(np.int64).mean()


def in_dtype_of_logits(losses: Array, logits: Array) -> Array:
    return losses.astype(logits.dtype).mean()


def in_place(logits: Array, targets: Array) -> Array:
    logits -= logits.max(axis=-1, keepdims=True)
    return entropy(logits, targets)


def changed(**steps: Function) -> Function:
    return partial(entropy, **steps)


LITTLE = (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 1e-15, 1e-16, 1e-20, float(np.finfo(float).eps))

TASK = Task(
    name="cross_entropy",
    signature="cross_entropy(logits, targets)",
    returns=Text("loss, one number", "loss，一个数"),
    title=Text("Cross-entropy", "交叉熵"),
    statement=Text(
        "logits (n, vocab) are scores, not probabilities; targets (n,) holds the index of the right token of each row.\n"
        "Return the mean over the rows of -log softmax(logits)[target], natural logarithm.\n"
        "It must hold for logits of any size, also where the right token is so unlikely that its probability underflows to 0.",
        "logits (n, vocab) 是分数，不是概率；targets (n,) 是每一行正确词元的下标。\n"
        "返回各行 -log softmax(logits)[target] 的平均，用自然对数。\n"
        "logits 无论多大都要成立，包括正确词元的概率小到下溢为 0 的时候。",
    ),
    reference=ops.cross_entropy,
    formula=entropy,
    probes=(
        Probe("example", {"logits": np.array([[2.0, 0.0, 1.0], [0.0, -1.0, 3.0]]), "targets": np.array([0, 1])},
              Text("two tokens, a vocabulary of three", "两个词元，词表大小为 3")),
        Probe("square", {"logits": drawn(11, 4, 4), "targets": np.array([2, 0, 2, 3])},
              Text("as many rows as words: nothing breaks, only values differ", "行数与词表大小相同：不会报错，只有数值不同")),
        Probe("huge", {"logits": np.array([[1000.0, 1001.0, 998.0], [-1002.0, -1000.0, -1001.0]]), "targets": np.array([0, 2])},
              Text("one row near 1000, one near -1000", "一行约 1000，一行约 -1000")),
        Probe("unlikely", {"logits": np.array([[0.0, -30.0, 1.0], [2.0, 3.0, -4000.0]]), "targets": np.array([1, 2])},
              Text("right tokens that were thought all but impossible", "正确的词元被认为几乎不可能")),
        Probe("edge_of_exp", {"logits": np.array([[-1.0, -744.7, -900.0, -850.0], [-744.35, -743.7, -743.33, -744.35]]),
                              "targets": np.array([1, 0])},
              Text("exponentials so small that they hold one digit: what overflows elsewhere gives a number here",
                   "exp 的结果小到只剩一位有效数字：别处会溢出的写法，这里也能得到一个数")),
        Probe("integers", {"logits": np.array([[1, 3, 5, 2], [2, 1, 4, 3]]), "targets": np.array([2, 3])},
              Text("integer logits", "logits 是整数")),
    ),
    mistakes=(
        Mistake("loss_sum", (changed(reduce=total),), say(
            ("The losses are summed, not averaged.", "损失求了和，而不是平均。"),
            ("the sum of the losses", "各行损失之和"),
            ("Should twice as many tokens give twice the loss?", "词元数翻倍，损失应该翻倍吗？"),
            ("Look at the last step, from one loss per row to one number.", "看最后一步：怎样从每行一个损失变成一个数。"),
            ("Take losses.mean().", "用 losses.mean()。"),
        )),
        Mistake("loss_not_reduced", (changed(reduce=each),), say(
            ("The losses of the rows are returned, not their mean.", "返回了每一行的损失，没有取平均。"),
            ("one loss for each row", "每行各一个损失"),
            ("How many numbers are asked for?", "题目要求返回几个数？"),
            ("Look at the return statement.", "看 return 语句。"),
            ("return losses.mean().", "return losses.mean()。"),
        )),
        Mistake("loss_wrong_mean", (changed(reduce=mean_of_everything), changed(reduce=mean_over_vocabulary)), say(
            ("The sum of the losses is divided by another number than that of the rows.", "损失之和除以的不是行数。"),
            ("the losses divided by a number with the vocabulary in it", "除数里含有词表大小的损失"),
            ("How many losses are there: n, vocab, or n times vocab?", "一共有几个损失：n 个、vocab 个，还是 n × vocab 个？"),
            ("Look at what mean() is taken over, zeros of a one-hot product included.", "看 mean() 对什么取平均：one-hot 乘积里的 0 也算进去了吗？"),
            ("Sum, then divide by the number of rows: losses.sum() / len(targets).", "先求和，再除以行数：losses.sum() / len(targets)。"),
        )),
        Mistake("loss_sign", (changed(choose=positive),), say(
            ("The minus sign is missing.", "缺了负号。"),
            ("the mean log-probability, without the minus", "没有负号的平均对数概率"),
            ("Can a logarithm of a probability be positive? And a loss negative?", "概率的对数会是正的吗？损失会是负的吗？"),
            ("Look at the sign of what you return.", "看返回值的正负号。"),
            ("Return -log_probabilities[...].mean().", "返回 -log_probabilities[...].mean()。"),
        )),
        Mistake("loss_no_max", (changed(top=nothing), changed(top=nothing, log_softmax=log_of_probabilities),
                                *(changed(top=nothing, log_softmax=partial(log_of_a_bit_more, more=m)) for m in LITTLE),
                                *(changed(top=nothing, log_softmax=partial(log_of_at_least, least=m)) for m in LITTLE)), say(
            ("exp is taken of the logits themselves, so it overflows.", "直接对 logits 取 exp，因此会溢出。"),
            ("a cross-entropy without subtracting the maximum", "不减最大值的交叉熵"),
            ("What is np.exp(1000)?", "np.exp(1000) 是多少？"),
            ("Look at what goes into exp.", "看传入 exp 的是什么。"),
            ("Subtract first: x = logits - logits.max(axis=-1, keepdims=True), then x - np.log(np.exp(x).sum(-1, keepdims=True)).",
             "先减最大值：x = logits - logits.max(axis=-1, keepdims=True)，再算 x - np.log(np.exp(x).sum(-1, keepdims=True))。"),
        )),
        Mistake("loss_log_of_zero", (changed(log_softmax=log_of_probabilities),
                                     *(changed(log_softmax=partial(log_of_a_bit_more, more=m)) for m in LITTLE),
                                     *(changed(log_softmax=partial(log_of_at_least, least=m)) for m in LITTLE)), say(
            ("The logarithm is taken of a finished softmax, where a small probability has become 0 or is padded by an epsilon.",
             "对算好的 softmax 取对数：很小的概率已变成 0，或者被 epsilon 垫高。"),
            ("log(softmax) taken in two steps", "分两步算的 log(softmax)"),
            ("How small a probability can exp still hold? What is its logarithm then?", "exp 能表示多小的概率？再小时取对数会得到什么？"),
            ("Look at np.log: does it get the quotient?", "看 np.log：传进去的是不是除完的商？"),
            ("Let log and exp meet: x - np.log(np.exp(x).sum(axis=-1, keepdims=True)) with x = logits - max.",
             "让 log 与 exp 抵消：x - np.log(np.exp(x).sum(axis=-1, keepdims=True))，其中 x = logits - max。"),
        )),
        Mistake("loss_clipped", (*(changed(before=partial(clipped, least=-c, most=c)) for c in (20, 50, 88, 100, 500, 700, 709)),
                                 *(changed(before=partial(clipped, least=-np.inf, most=c), top=s) for c in (100, 500, 700)
                                   for s in (largest, nothing)),
                                 *(changed(log_softmax=partial(log_of_clipped, least=-c)) for c in (20, 50, 100, 500, 700, 745))), say(
            ("The logits are clipped, which changes the large ones.", "logits 被截断了，大的数因此变了样。"),
            ("the cross-entropy of clipped logits", "截断 logits 之后的交叉熵"),
            ("What loss has a token whose logit lies 1000 below the best?", "某个词元的 logit 比最大的低 1000，它的损失应该是多少？"),
            ("Look at clip, minimum and maximum.", "看 clip、minimum 与 maximum。"),
            ("Subtract the maximum of the row instead of clipping: it changes nothing.", "不要截断，改为减去每行的最大值：结果不变。"),
        )),
        Mistake("loss_no_softmax", (changed(top=nothing, log_softmax=as_given), changed(top=nothing, log_softmax=np.log)), say(
            ("There is no softmax: the logits are taken for log-probabilities or for probabilities.",
             "没有做 softmax：把 logits 当成了对数概率或概率。"),
            ("a loss read off the logits themselves", "直接从 logits 取出的损失"),
            ("Do the exponentials of one row of your log-probabilities sum to 1?", "你的对数概率，一行取 exp 后加起来是 1 吗？"),
            ("Look for the sum of exponentials.", "找一找所有 exp 之和在哪里。"),
            ("Subtract its logarithm: x - np.log(np.exp(x).sum(axis=-1, keepdims=True)).",
             "减去它的对数：x - np.log(np.exp(x).sum(axis=-1, keepdims=True))。"),
        )),
        Mistake("loss_no_log", (changed(log_softmax=probabilities),), say(
            ("The logarithm is missing: the loss is minus the probability.", "缺了对数：损失成了概率取负。"),
            ("the mean probability of the targets, with a minus", "目标概率的平均再取负"),
            ("How large should the loss be when the right token gets probability 0.001?", "正确词元的概率只有 0.001 时，损失应该多大？"),
            ("Look between the softmax and the choice of the targets.", "看 softmax 与取目标之间的那一步。"),
            ("Take the log-softmax: x - np.log(np.exp(x).sum(axis=-1, keepdims=True)).",
             "用 log-softmax：x - np.log(np.exp(x).sum(axis=-1, keepdims=True))。"),
        )),
        Mistake("loss_softmax_twice", (changed(before=ops.softmax),), say(
            ("The softmax is applied twice.", "softmax 做了两次。"),
            ("the cross-entropy of softmax(logits) in place of logits", "把 softmax(logits) 当作 logits 的交叉熵"),
            ("Can your loss come near 0, even for a very sure and right model?", "模型又自信又正确时，你的损失能接近 0 吗？"),
            ("Count the times that exp is taken.", "数一数做了几次 exp。"),
            ("Give the logits themselves to the log-softmax.", "把 logits 本身交给 log-softmax。"),
        )),
        Mistake("loss_log_base", tuple(changed(log_softmax=partial(log_to_base, base=b)) for b in (2.0, 10.0)), say(
            ("The logarithm has another base than e.", "对数的底不是 e。"),
            ("the loss in bits or in decimal digits", "以 2 或 10 为底的损失"),
            ("Which logarithm undoes np.exp?", "哪个对数与 np.exp 互逆？"),
            ("Look for log2 and log10.", "找 log2 与 log10。"),
            ("np.log.", "用 np.log。"),
        )),
        Mistake("loss_all_pairs", (changed(choose=all_pairs), changed(choose=all_pairs, reduce=sum_over_n),
                                   changed(choose=all_pairs, reduce=total)), say(
            ("Each row is read at the targets of all rows.", "每一行都取了所有行的目标。"),
            ("a loss over all pairs of row and target", "对所有“行与目标”配对取的损失"),
            ("What shape has x[:, targets]?", "x[:, targets] 是什么形状？"),
            ("Look at how the targets are picked.", "看怎样取出目标的那一列。"),
            ("One from each row: x[np.arange(n), targets].", "每行取一个：x[np.arange(n), targets]。"),
        )),
        Mistake("loss_targets_shifted", (changed(choose=next_targets),), say(
            ("The targets are moved by one row once more: each row is compared with the next row's target.",
             "目标又错开了一行：每行用了下一行的目标。"),
            ("a loss against the target of the next row", "与下一行的目标比较的损失"),
            ("targets[i] already belongs to logits[i]: who moves it?", "targets[i] 已经对应 logits[i]：还需要错位吗？"),
            ("Look for [:-1] and [1:].", "找 [:-1] 与 [1:]。"),
            ("Use all rows as they are.", "所有行原样使用。"),
        )),
        Mistake("loss_of_likeliest", (changed(choose=likeliest),), say(
            ("The likeliest token is scored, not the target.", "用的是概率最大的词元，而不是目标词元。"),
            ("the loss of the likeliest token of each row", "每行概率最大词元的损失"),
            ("Does your loss change when the targets do?", "换一组 targets，你的损失会变吗？"),
            ("Look at where targets is read.", "看哪里用到了 targets。"),
            ("x[np.arange(n), targets].", "x[np.arange(n), targets]。"),
        )),
        Mistake("softmax_wrong_axis", (*(changed(top=t, log_softmax=s) for t in (largest_of_columns, largest, largest_of_all)
                                         for s in (along_columns, log_of_column_probabilities)),
                                       changed(top=largest_of_all, log_softmax=over_everything)), say(
            ("The softmax does not run along the vocabulary.", "softmax 没有沿词表那一维计算。"),
            ("a cross-entropy with its softmax along another axis", "softmax 沿另一维计算的交叉熵"),
            ("Which probabilities sum to 1: those of one row, or of one column?", "哪些概率加起来是 1：同一行的，还是同一列的？"),
            ("Look at axis= in the maximum and in the sum.", "看求最大值与求和时的 axis=。"),
            ("axis=-1, keepdims=True.", "axis=-1, keepdims=True。"),
        )),
        Mistake("softmax_no_keepdims", (changed(top=flat_largest), changed(log_softmax=flat_sum),
                                        changed(top=flat_largest, log_softmax=flat_sum))),
        Mistake("softmax_global_max", (changed(top=largest_of_all), changed(top=largest_of_all, log_softmax=log_of_probabilities))),
        Mistake("integer_result", (changed(reduce=cut_first), changed(reduce=in_dtype_of_logits)), say(
            ("The losses are put into an integer array, which cuts off the fractions.", "损失存进了整数数组，小数部分被截掉。"),
            ("the loss with its fractions cut off", "截掉小数的损失"),
            ("What dtype has np.zeros_like(targets)?", "np.zeros_like(targets) 是什么 dtype？"),
            ("Look at zeros_like, empty_like and astype.", "看 zeros_like、empty_like 与 astype。"),
            ("Make it a float array: np.zeros(n).", "用浮点数组：np.zeros(n)。"),
        )),
        Mistake("mutates_input", (in_place,)),
    ),
    solution=(
        Line("def cross_entropy(logits, targets):\n    x = logits - logits.max(axis=-1, keepdims=True)",
             "Nothing above 0 goes into exp, so nothing overflows.", "传入 exp 的数都不超过 0，不会溢出。"),
        Line("    log_p = x - np.log(np.exp(x).sum(axis=-1, keepdims=True))",
             "log(exp(x) / sum) without the quotient, which could underflow to 0.", "不做除法直接得到 log(exp(x) / 总和)，避免商下溢为 0。"),
        Line("    return -log_p[np.arange(len(targets)), targets].mean()",
             "Of each row the target's column, then the mean.", "每行取目标那一列，再求平均。"),
    ),
    styles={
        "loops": '''
import math


def cross_entropy(logits, targets):
    total = 0.0
    for row, target in zip(logits.tolist(), targets.tolist()):
        top = max(row)
        lse = top + math.log(sum(math.exp(score - top) for score in row))
        total += lse - row[target]
    return total / len(targets)
''',
        "one_hot": '''
import numpy as np


def cross_entropy(logits, targets):
    n, vocab = logits.shape
    one_hot = np.eye(vocab)[targets]
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_p = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.sum(one_hot * log_p) / n
''',
        "logaddexp": '''
import numpy as np


def cross_entropy(logits, targets):
    chosen = np.take_along_axis(logits, targets[:, None], axis=1)
    return float(np.mean(np.logaddexp.reduce(logits - chosen, axis=1)))
''',
        "chinese_names": '''
import numpy as np


class 交叉熵:
    def 对数概率(self, 分数):
        最大 = 分数.max(axis=1)[:, None]
        return 分数 - 最大 - np.log(np.exp(分数 - 最大).sum(axis=1))[:, None]

    def __call__(self, 分数, 目标):
        return np.average([-行[词] for 行, 词 in zip(self.对数概率(分数), 目标)])


def cross_entropy(logits, targets):
    return 交叉熵()(logits, targets)
''',
    },
)  # fmt: skip
